"""Tables, pictures and pages."""
