"""The HTTP side of a service: admission of callers, the API, and the server."""

__all__ = ["access", "api", "http_server", "serving"]
