"""What is shared, who shares it, and who gets what: values only."""
