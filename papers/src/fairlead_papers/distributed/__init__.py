"""Servers that divide themselves: each by its own clock, and by what it has heard of the others."""
