"""Selections: the choice of the server for a task. Cycles of one selection are in its module."""
