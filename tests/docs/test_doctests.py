"""Every public object has an example in its docstring, and every example runs."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import fairlead

pytestmark = pytest.mark.usefixtures("few_instants")


def examples_of(name: str) -> list[doctest.DocTest]:
    """Return the examples of a public object and of its public methods."""
    found = doctest.DocTestFinder().find(getattr(fairlead, name), name, globs={})
    return [test for test in found if test.examples and "._" not in test.name]


@pytest.mark.parametrize("name", fairlead.__all__)
def test_public_objects_have_examples_that_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tests = examples_of(name)
    assert tests, f"{name} has no example"
    for test in tests:
        test.globs.update({public: getattr(fairlead, public) for public in fairlead.__all__})
        outcome = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
        assert outcome.failed == 0, test.name
