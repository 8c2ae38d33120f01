"""Values only: what is shared, by whom, and who gets what."""
