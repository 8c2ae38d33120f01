"""Trace files, read."""
