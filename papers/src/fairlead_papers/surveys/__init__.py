"""Audits of mechanisms on random problems, and the smallest witnesses: ``audit --random``."""
