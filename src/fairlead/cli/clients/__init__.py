"""Verbs of a running service's clients; they import little, to start fast."""
