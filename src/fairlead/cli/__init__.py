"""The command line: one module a verb, and what verbs of other packages may import."""

__all__ = ["main", "options", "own_code", "parameters", "streams"]
