"""Stand in for mypyc where it is not installed."""

raise ImportError("not installed")
