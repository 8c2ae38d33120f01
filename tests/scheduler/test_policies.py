"""The table of policies: what it knows, what it refuses, and that names come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.online_policy import parse_policy
from fairlead.scheduler.policies import CRITERIA, SELECTIONS, Policy, parse
from fairlead.scheduler.policy import CRITERIA as KNOWN

FORMS = ("", "/residual", "/oblivious", "/residual/oblivious", "/residual/residual", "/worst", "/")
NAMES = [f"{c}/{s}{form}" for c in (*KNOWN, "x") for s in (*SELECTIONS, "y") for form in FORMS]
ALL = [f"{c}/{s}{form}" for c in CRITERIA for s in SELECTIONS for form in FORMS]
OTHERS = [f"slots:{slots}" for slots in ("", "0", "1", "-1", "007", "1000000", "1000001", "x", "²")]


def said(call: Callable[[str], Any], name: str) -> Any:
    """Return what a name stands for, or how it is refused, but for the names that are known."""
    try:
        return call(name)
    except (InputError, RefusalError) as error:
        return type(error), str(error).partition("known: ")[0]


@pytest.mark.parametrize("name", [*NAMES, *OTHERS, "", "drf", "/", "slots"])
def test_names_are_accepted_and_refused_as_they_were(name: str) -> None:
    expected, found = said(parse_policy, name), said(parse, name)
    if not isinstance(found, Policy):
        assert found == expected
        return
    assert (found.name, found.is_random) == (expected.name, expected.is_random)
    assert parse(found.name) == found
    fill = expected.fill
    assert found[:4] == (fill.criterion, fill.select, fill.residual, expected.oblivious)
    assert found.slots == (expected.slots or 0)


@pytest.mark.parametrize("name", ALL)
def test_what_has_a_meaning_has_a_kernel_or_is_not_placed_yet(name: str) -> None:
    found = said(parse, name)
    if isinstance(found, Policy):
        kernel = said(lambda _: found.kernel, name)
        assert callable(kernel) or kernel == (InputError, f"policy: {name!r} is not placed yet")


@pytest.mark.parametrize("wild", [None, 5, ["drf"], b"drf/first-fit"])
def test_what_is_no_name_is_refused(wild: Any) -> None:
    with pytest.raises(InputError, match="no policy is named"):
        parse(wild)
