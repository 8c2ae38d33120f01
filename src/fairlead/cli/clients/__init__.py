"""Commands of clients of a running service; they import little, to start fast."""
