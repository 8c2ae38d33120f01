"""Selections: which server takes a task. One file each."""
