"""Logs of real systems, one file per format, and what is made of them."""
