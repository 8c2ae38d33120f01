"""Slow answers and naive checks, written from the papers' definitions alone."""
