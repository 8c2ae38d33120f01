"""Whole tasks, placed one by one: who is next, and where."""
