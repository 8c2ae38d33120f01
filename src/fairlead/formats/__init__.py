"""Files: problems and allocations, read and written."""
