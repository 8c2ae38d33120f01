"""Documents of answers: HTML pages, tables on a terminal, and JSON."""

__all__ = [
    "allocation",
    "audit",
    "charts",
    "document",
    "dynamic",
    "filling",
    "live",
    "numbers",
    "page",
    "simulation",
    "terminal",
    "trace",
]
