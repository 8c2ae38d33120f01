"""The service: the scheduler run live, with a journal, an HTTP API, workers and clients."""

__all__ = [
    "bounds",
    "client",
    "engines",
    "http",
    "jobs",
    "journal",
    "messages",
    "rate_limits",
    "service",
    "service_state",
    "sessions",
    "tls_certificate",
    "worker",
]
