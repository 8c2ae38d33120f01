"""A digest of the program's sources, which stamps the results that are kept."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


@cache
def digest_of_sources() -> str:
    """Return a digest of all of this package's sources: who edits one gets results of their own."""
    digest = blake2b(digest_size=8)
    for path in sorted(_PACKAGE.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()
