"""The command line: one file per verb; the only place that wires the rooms together."""
