"""Documents of answers: HTML pages, tables on a terminal, and JSON."""
