"""Compile the scheduler and some loops by mypyc where possible.

All other settings of the package are in pyproject.toml.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, "src")
sys.path.insert(0, ".")
from fairlead.compiled import (
    LIBRARY,
    checksum_of_sources,
    plain_is_selected,
    record_build,
    remove_build,
    sources_to_compile,
)
from page_libraries import copy_libraries

# Other commands, such as those for metadata and for the source distribution, compile nothing.
BUILDS = {"bdist_wheel", "build", "build_ext", "editable_wheel", "install"}


# Taken before the compiler reads the sources, which may change while it runs.
SOURCES = checksum_of_sources()


class BuildExtensions(build_ext):
    """Record the sources of extensions that are put into the checkout."""

    def copy_extensions_to_source(self) -> None:
        """Copy the extensions as setuptools does, then write the record."""
        super().copy_extensions_to_source()
        if self.extensions:
            record_build(SOURCES)


def obstacle() -> str:
    """Return why the scheduler cannot be compiled here; empty if it can."""
    if plain_is_selected():
        return "FAIRLEAD_PLAIN is set"
    try:
        import mypyc.build  # noqa: F401, PLC0415 (may be absent)
    except ImportError as error:
        return f"mypyc cannot be imported ({error})"
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    headers = [f"-I{sysconfig.get_path(name)}" for name in ("include", "platinclude")]
    try:
        subprocess.run(
            [*shlex.split(compiler), *headers, "-fsyntax-only", "-x", "c", "-"],
            input=b"#include <Python.h>\n",
            capture_output=True,
            check=True,
        )
    except OSError:
        return f"no C compiler ({compiler})"
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").splitlines()
        fault = next((line for line in lines if "error" in line), compiler)
        return f"the C compiler cannot compile with Python's headers ({fault})"
    return ""


def compiled_modules() -> list[Extension]:
    """Translate the modules to C, as one group, so that calls between its modules are C calls."""
    from mypyc.build import mypycify  # noqa: PLC0415 (may be absent)

    extensions: list[Extension] = mypycify(
        # Without installed packages the C is the same, but no types of NumPy are read: 5 s, not 26.
        ["--follow-imports=silent", "--no-site-packages", *sources_to_compile()],
        group_name=LIBRARY.removesuffix("__mypyc"),
        opt_level="2",  # as fast as 3 in measurements, and builds faster
        debug_level="0",
    )
    for extension in extensions:
        # mypyc sets -Werror, but a new warning of a newer compiler must not prevent installation.
        # Without contraction, a product is rounded before it is added, as Python rounds it; some
        # processors would otherwise round only the sum.
        given = extension.extra_compile_args
        extension.extra_compile_args = [*given, "-Wno-error", "-ffp-contract=off"]
    return extensions


def extensions() -> list[Extension]:
    """Return the extensions to build for this command: none for plain Python."""
    if not BUILDS & set(sys.argv):
        return []
    if fault := copy_libraries():
        print(f"fairlead: installed without the live page: {fault}", file=sys.stderr)
    if {"editable_wheel", "--inplace", "-i"} & set(sys.argv):
        remove_build()  # so that no extension outlives its source
    if found := obstacle():
        print(f"fairlead: installed as plain Python: {found}", file=sys.stderr)
        return []
    return compiled_modules()


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildExtensions})
