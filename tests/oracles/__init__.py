"""Slow answers and naive checks, written only from the papers' definitions."""
