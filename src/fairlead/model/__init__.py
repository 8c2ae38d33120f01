"""What is shared, by whom, and who gets what: values only."""
