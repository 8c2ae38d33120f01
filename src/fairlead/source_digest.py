"""A digest of the sources, stored with results to recognise results of other versions."""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path


@cache
def digest_of_sources(*packages: str) -> str:
    """Return a digest of the sources of fairlead and of further packages that compute a result."""
    digest = blake2b(digest_size=8)
    for package in ("fairlead", *packages):
        for path in sorted(_folder_of(package).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _folder_of(package: str) -> Path:
    found = find_spec(package)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent
