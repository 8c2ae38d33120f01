"""The HTTP side of a service: access control, the API, and the server."""

__all__ = ["access", "api", "http_server"]
