"""The conditions that make allocations right, measured from their definitions."""
