"""The mechanisms: one idea a file, each naming its paper."""
