"""Criteria: which queue is next. One file each."""
