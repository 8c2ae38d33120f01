"""Tables of whole tasks, for terminals of any width and for pipes."""

from __future__ import annotations

import numpy as np
import pytest

from fairlead.model.problem import Problem
from fairlead.report import filling as module
from fairlead.report.filling import filling_document
from fairlead.report.numbers import number, spread
from fairlead.report.terminal import to_terminal
from fairlead.scheduler.policies import find_policy
from fairlead.simulation.trials import Trials, run_trials

NAME = "[bold]x\u202e31m"


def small(select: str, trials: int) -> Trials:
    problem = Problem.from_arrays(
        [[100, 30], [30, 100]],
        [[5, 1], [1, 5]],
        groups=["s1", NAME],
        users=["f1", "f2"],
        units=["cores", ""],
    )
    return run_trials(problem, find_policy("drf", select), trials, 1)


def many(users: int, groups: int, select: str, trials: int) -> Trials:
    random = np.random.default_rng(1)
    problem = Problem.from_arrays(
        random.integers(20, 60, (groups, 2)), random.integers(1, 9, (users, 2))
    )
    return run_trials(problem, find_policy("tsf", select), trials, 1)


def filling_tables(trials: Trials, *, width: int | None, plain: bool) -> str:
    return to_terminal(filling_document(trials, "t"), width=width, plain=plain)


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_one_filling_says_who_got_what_and_what_is_left_over() -> None:
    text = filling_tables(small("best-fit", 1), width=None, plain=True)
    assert text.startswith("t: 2 users on 2 servers in 2 groups, filled by drf/best-fit\n")
    assert ["s1", "r1", "(cores)", "3", "100", "3.00", "%"] in lines(text)
    assert ["s1", "r2", "1", "30", "3.33", "%"] in lines(text)
    assert "trial" not in text


def test_several_trials_say_mean_margin_and_deviation_of_everything() -> None:
    trials = small("rrr", 9)
    text = filling_tables(trials, width=None, plain=True)
    listed = lines(text)
    for summary, index, row in (
        (trials.tasks, (0, 0), ["f1", "s1"]),
        (trials.user_tasks, (0,), ["f1", "all"]),
        (trials.total, (), ["everybody", "all"]),
        (trials.unused, (0, 0), ["s1", "r1", "(cores)"]),
    ):
        assert summary.margin is not None
        assert summary.sd is not None
        cells = [
            number(float(summary.mean[index])),
            spread(float(summary.margin[index])),
            spread(float(summary.sd[index])),
        ]
        assert any(line[: len(row) + 3] == row + cells for line in listed), cells
    assert "means of 9 trials" in text
    assert "Student's t" in text
    assert "in every trial every task fits" in text


def test_chance_is_mentioned_where_there_is_any() -> None:
    assert "One trial of a random policy, seed 1" in filling_tables(
        small("rrr", 1), width=None, plain=True
    )
    assert "computed once" in filling_tables(small("best-fit", 9), width=None, plain=True)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("trials", [1, 3])
def test_tables_keep_to_the_terminal(width: int, trials: int) -> None:
    text = filling_tables(many(60, 30, "rrr", trials), width=width, plain=True)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "... and 20 users with smaller shares" in text
    assert "... and 20 rows with smaller shares left over" in text


def test_into_a_pipe_everything_is_listed() -> None:
    trials = many(60, 30, "rrr", 3)
    text = filling_tables(trials, width=None, plain=True)
    first = [line[0] for line in lines(text) if line]
    named = [word for word in first if word[:1] == "u" and word[1:].isdigit()]
    assert list(dict.fromkeys(named)) == [f"u{n + 1}" for n in range(60)]
    assert {f"g{g + 1}" for g in range(30)} <= {word for line in lines(text) for word in line}
    assert "... and" not in text


def test_very_many_means_are_listed_in_all_only(monkeypatch: pytest.MonkeyPatch) -> None:
    trials = many(20, 30, "rrr", 3)
    assert "group by group" not in filling_tables(trials, width=None, plain=True)
    monkeypatch.setattr(module, "ROWS_IN_PIPE", 100)
    text = filling_tables(trials, width=None, plain=True)
    assert "on all servers; group by group: --json" in text
    assert [line[0] for line in lines(text) if line and line[0].startswith("u")][:21] == [
        "user", *(f"u{n + 1}" for n in range(20)),
    ]  # fmt: skip


def test_names_are_neither_markup_nor_terminal_commands() -> None:
    for trials in (small("best-fit", 1), small("rrr", 3)):
        text = filling_tables(trials, width=None, plain=True)
        assert "[bold]x\\u202e31m" in text
        assert "\u202e" not in text


@pytest.mark.parametrize(
    ("value", "written"), [(0.0, "0"), (2.7012, "2.7"), (1.8079, "1.81"), (12345.6, "12,300")]
)
def test_deviations_have_three_digits(value: float, written: str) -> None:
    assert spread(value) == written
