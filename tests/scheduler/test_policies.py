"""The table of policies: what it knows, what it refuses, and that names come back."""

from __future__ import annotations

import pytest

from fairlead.errors import InputError, RefusalError
from fairlead.scheduler.online_policy import parse_policy
from fairlead.scheduler.policies import CRITERIA, SELECTIONS, Policy, parse
from fairlead.scheduler.policy import CRITERIA as KNOWN

FORMS = ("", "/residual", "/oblivious", "/residual/oblivious", "/residual/residual", "/worst", "/")
NAMES = [f"{c}/{s}{form}" for c in (*CRITERIA, "x") for s in (*SELECTIONS, "y") for form in FORMS]
OTHERS = [f"slots:{slots}" for slots in ("", "0", "1", "-1", "007", "1000000", "1000001", "x", "²")]


@pytest.mark.parametrize("name", [*NAMES, *OTHERS, "", "drf", "/", "slots"])
def test_names_are_accepted_and_refused_as_they_were(name: str) -> None:
    if name.partition("/")[0] in set(CRITERIA) - set(KNOWN):
        pytest.skip("is new")
    try:
        expected = parse_policy(name)
    except (InputError, RefusalError) as error:
        with pytest.raises(type(error)) as met:
            parse(name)
        assert str(met.value).partition("known: ")[0] == str(error).partition("known: ")[0]
        return
    found = parse(name)
    assert found.name == expected.name
    assert parse(found.name) == found
    assert found.is_random == expected.is_random
    assert found == Policy(
        expected.fill.criterion,
        expected.fill.select,
        expected.fill.residual,
        expected.oblivious,
        expected.slots or 0,
    )


@pytest.mark.parametrize("wild", [None, 5, ["drf"], b"drf/first-fit"])
def test_what_is_no_name_is_refused(wild: object) -> None:
    with pytest.raises(InputError, match="no policy is named"):
        parse(wild)  # type: ignore[arg-type]
