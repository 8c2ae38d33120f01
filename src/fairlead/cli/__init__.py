"""The command line: modules of verbs, and in `__all__` those that other packages may import."""

__all__ = ["main", "options", "own_code", "parameters", "streams"]
