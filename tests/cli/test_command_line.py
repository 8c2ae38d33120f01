"""The words of a command line become arguments of a verb's function; values of its options."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest

from fairlead.cli.options import (
    PolicySuffixes,
    is_bare_number,
    parse_fraction,
    parse_seconds,
    parse_time_limit,
    with_ray_address,
)
from fairlead.cli.parameters import (
    Argument,
    Option,
    UsageFault,
    help_of,
    parameters_of,
    parse_words,
)
from fairlead.errors import InputError


def verb(
    first: Annotated[Path, Argument(metavar="FIRST", help="A path.")],
    rest: Annotated[list[str] | None, Argument(metavar="REST...", help="Words.")] = None,
    output: Annotated[str, Option("--output", "-o", metavar="OUT", help="A text.")] = "-",
    count: Annotated[int, Option("--count", "-n", min=1, max=9, help="A number.")] = 3,
    part_of_all: Annotated[float | None, Option(metavar="P", help="A part.")] = None,
    label: Annotated[list[str] | None, Option("--label", "-l", help="Words.")] = None,
    follow: Annotated[bool, Option("--follow", "-f", help="A flag.")] = False,
    loud: Annotated[bool, Option("--loud", "-d", help="A flag.")] = False,
    place: Annotated[str, Option(envvar="PLACE", help="Where.")] = "here",
) -> None:
    """Do something.

    \b
    Example:
      fairlead verb first   # two  blanks stay
    """


DEFAULTS = {
    "first": Path("a"),
    "rest": None,
    "output": "-",
    "count": 3,
    "part_of_all": None,
    "label": None,
    "follow": False,
    "loud": False,
    "place": "here",
}


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["a"], {}),
        (["a", "b", "c"], {"rest": ["b", "c"]}),
        (["a", "-o", "x", "b"], {"output": "x", "rest": ["b"]}),
        (["--output=x=y", "a"], {"output": "x=y"}),
        (["--output=", "a"], {"output": ""}),
        (["a", "-o", "x", "-o", "y"], {"output": "y"}),
        (["a", "-o", "--loud"], {"output": "--loud"}),
        (["a", "-n4"], {"count": 4}),
        (["a", "-fdn", "4"], {"count": 4, "follow": True, "loud": True}),
        (["a", "--part-of-all", "-1e3"], {"part_of_all": -1000.0}),
        (["a", "-l", "x", "--label", "y"], {"label": ["x", "y"]}),
        (["a", "--", "-f", "--"], {"rest": ["-f", "--"]}),
        (["a", "-"], {"rest": ["-"]}),
    ],
)
def test_words_become_values(words: list[str], values: dict[str, object]) -> None:
    assert parse_words(verb, words) == DEFAULTS | values


@dataclass(frozen=True)
class Amounts:
    """Options that several verbs share."""

    cpu: Annotated[float, Option(help="Cores.")] = 1.0
    where: Annotated[list[str] | None, Option("-w", help="Places.")] = None


def shared(amounts: Amounts, follow: Annotated[bool, Option(help="A flag.")] = False) -> None:
    """Do something with amounts."""


def test_options_of_a_dataclass_come_as_its_object() -> None:
    found = parse_words(shared, ["-w", "a", "--follow", "-wb"])
    assert found == {"amounts": Amounts(where=["a", "b"]), "follow": True}


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ([], "missing argument 'FIRST'"),
        (["a", "--outptu", "x"], "no such option: --outptu; did you mean --output?"),
        (["a", "-x"], "no such option: -x"),
        (["a", "-1"], "no such option: -1"),
        (["a", "-o"], "-o option requires an argument"),
        (["a", "--follow=yes"], "--follow option does not take a value"),
        (["a", "-n", "0"], "invalid value for '--count' / '-n': must be at least 1, not '0'"),
        (["a", "-n", "10"], "invalid value for '--count' / '-n': must be at most 9, not '10'"),
        (["a", "-n", "1_0"], "'--count' / '-n': must be a whole number, not '1_0'"),
        (["a", "--part-of-all", ""], "'--part-of-all': must be a number, not ''"),
        ([""], "invalid value for 'FIRST': must be a path, not ''"),
    ],
)
def test_wrong_words_are_refused(words: list[str], fault: str) -> None:
    with pytest.raises(UsageFault) as refused:
        parse_words(verb, words)
    assert str(refused.value).endswith(fault)
    with pytest.raises(UsageFault, match=r"got unexpected extra arguments \(b c\)"):
        parse_words(shared, ["b", "c"])


def test_help_is_shown_whatever_else_is_missing() -> None:
    assert parse_words(verb, ["--count", "x", "--help"]) is None
    assert parse_words(verb, ["a", "--", "--help"]) == DEFAULTS | {"rest": ["--help"]}


def test_a_variable_stands_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "there")
    assert parse_words(verb, ["a"]) == DEFAULTS | {"place": "there"}
    assert parse_words(verb, ["a", "--place", "x"]) == DEFAULTS | {"place": "x"}
    monkeypatch.setenv("PLACE", "")
    assert parse_words(verb, ["a"]) == DEFAULTS


def test_help_has_parameters_defaults_and_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert help_of("fairlead verb", verb.__doc__ or "", "Arguments", {}, parameters_of(verb)) == (
        "Usage: fairlead verb [OPTIONS] FIRST [REST...]\n"
        "\n"
        "  Do something.\n"
        "\n"
        "  Example:\n"
        "    fairlead verb first   # two  blanks stay\n"
        "\n"
        "Arguments:\n"
        "  FIRST    A path.  [required]\n"
        "  REST...  Words.\n"
        "\n"
        "Options:\n"
        "  -o OUT, --output=OUT  A text.  [default: -]\n"
        "  -n INT, --count=INT   A number.  [default: 3; 1<=x<=9]\n"
        "  --part-of-all=P       A part.\n"
        "  -l STR, --label=STR   Words.\n"
        "  -f, --follow          A flag.\n"
        "  -d, --loud            A flag.\n"
        "  --place=STR           Where.  [default: here]\n"
        "  --help                Show this message and exit.\n"
    )


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
