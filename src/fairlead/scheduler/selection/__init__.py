"""Selections: the server for a task. One file each."""
