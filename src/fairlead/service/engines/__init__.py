"""Where tasks really run: what an engine must do, and those that there are."""
