"""The HTTP side of a service: admission of callers, the API, and the server."""
