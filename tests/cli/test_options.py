"""Values of options that several verbs take: durations, fractions, policies, Ray's address."""

from __future__ import annotations

import pytest

from fairlead.cli.options import (
    PolicySuffixes,
    is_bare_number,
    parse_fraction,
    parse_seconds,
    parse_time_limit,
    with_ray_address,
)
from fairlead.errors import InputError

HOUR, DAY = 3600.0, 86400.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5h", 1.5 * HOUR),
        (".5h", 0.5 * HOUR),
        ("2.m", 120),
        ("2d", 2 * DAY),
        ("3m", 180),
        ("0s", 0),
        ("1e3", 1000),
        ("1:30", 90),
        ("90:00", 1.5 * HOUR),
        ("1:30:00", 1.5 * HOUR),
        ("100:00:01", 100 * HOUR + 1),
        ("2-12", 2.5 * DAY),
        ("2-12:30", 2.5 * DAY + 1800),
        ("2-12:30:15", 2.5 * DAY + 1815),
        ("0-0:00:05", 5),
        ("2d11h", 2 * DAY + 11 * HOUR),
        ("1d2h3m4s", DAY + 2 * HOUR + 184),
    ],
)
def test_forms_of_a_duration(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds
    assert parse_time_limit(text, "--time") == seconds if seconds else True


OTHERS = ["", "h", "nan", "inf", "-1", "1w", "1e999", "30m1h", "1:5", "1:60", "1:30:60", "2-"]
OTHERS += ["-12", "2-12:", "2-12:3", "1:2:3:4", "2-12h", "1:30m", "2d11", "1.5h30m", "1:30\n"]
OTHERS += ["unlimited", "1_0", "\u0663", " 90", "90 ", "5 m", "+5", "0x10"]


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts_are_no_duration(text: str) -> None:
    with pytest.raises(InputError, match="--at: must be seconds, a number with s, m, h or d or "):
        parse_seconds(text)


def test_a_limit_is_none_or_positive() -> None:
    for text in ("UNLIMITED", "INFINITE", "unlimited", "Infinite"):
        assert parse_time_limit(text, "--time") is None
    with pytest.raises(InputError, match="--time: must be more than 0"):
        parse_time_limit("0", "--time")


def test_bare_numbers() -> None:
    typed = ("30", "1e3", "30s", "30m", "0:30", "1-2", "x", "inf")
    assert [text for text in typed if is_bare_number(text)] == ["30", "1e3"]


@pytest.mark.parametrize("text", ["20", "-1%", "x", "101%", "nan", ""])
def test_other_texts_are_no_fraction(text: str) -> None:
    with pytest.raises(InputError, match="must be a fraction such as 20%"):
        parse_fraction(text, "--max-under")


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (PolicySuffixes(reserve=1), "drf/best-fit/reserve"),
        (PolicySuffixes(reserve=3, spare="cpu"), "drf/best-fit/reserve:3/spare:cpu"),
        (PolicySuffixes(half_life=60, reserve=1), "drf/best-fit/half-life:60/reserve"),
        (PolicySuffixes("over-share", spare="cpu"), "drf/best-fit/over-share/spare:cpu"),
    ],
)
def test_options_are_added_to_policies(options: PolicySuffixes, name: str) -> None:
    assert options.added_to("drf/best-fit") == name


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ("fill a.yaml --ray", "fill a.yaml --ray local"),
        ("fill --ray a.yaml --json", "fill --ray local a.yaml --json"),
        ("fill a.yaml --ray auto", "fill a.yaml --ray auto"),
        ("fill --ray head:6379 a.yaml", "fill --ray head:6379 a.yaml"),
        ("fill --ray=head:6379 a.yaml", "fill --ray=head:6379 a.yaml"),
        ("submit --cpu 1 -- train --ray", "submit --cpu 1 -- train --ray"),
        ("fill --ray -- a.yaml", "fill --ray local -- a.yaml"),
        ("", ""),
    ],
)
def test_an_address_may_be_left_out(words: str, read: str) -> None:
    assert with_ray_address(words.split()) == read.split()
