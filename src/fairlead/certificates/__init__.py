"""The conditions that make allocations right, measured from their definitions."""

from fairlead.compiled import choose_how_it_runs

choose_how_it_runs()
