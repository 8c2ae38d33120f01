"""What a reader looks at: tables for a terminal, and self-contained pages."""
