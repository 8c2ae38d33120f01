"""Documents of answers: HTML pages, tables on a terminal, and JSON."""

__all__ = [
    "allocation",
    "audit",
    "changes",
    "charts",
    "document",
    "dynamic",
    "filling",
    "live",
    "log_audit",
    "numbers",
    "page",
    "plots",
    "simulation",
    "terminal",
    "trace",
]
