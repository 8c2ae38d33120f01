"""Tables for terminals of any width, and for pipes."""

from __future__ import annotations

import numpy as np
import pytest
from handmade_answers import certificate, crowd, two_servers

from fairlead.mechanisms.catalogue import CATALOGUE
from fairlead.model.allocation import Allocation
from fairlead.model.problem import Problem
from fairlead.report.allocation import (
    allocation_document,
    catalogue_document,
    comparison_document,
)
from fairlead.report.numbers import number, percent, printable
from fairlead.report.terminal import to_terminal

NAMES = ["drf-per-server", "drfh", "cdrf", "tsf", "ps-dsf", "ps-dsf-tdm"]


def first_words(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line.strip()]


def test_into_a_pipe_everybody_is_listed_on_one_line() -> None:
    text = to_terminal(allocation_document(crowd(930, 10), "t"), width=None, plain=True)
    assert [w for w in first_words(text) if w.startswith("u") and w[1:].isdigit()] == [
        f"u{n + 1}" for n in range(930)
    ]
    assert "\x1b" not in text
    assert "more users" not in text


def test_on_a_terminal_the_largest_are_listed_and_the_rest_counted() -> None:
    allocation = crowd(930, 10)
    text = to_terminal(allocation_document(allocation, "t"), width=80, plain=True)
    listed = {w for w in first_words(text) if w.startswith("u") and w[1:].isdigit()}
    largest = np.argsort(-allocation.dominant_share)[:40]
    assert listed == {f"u{n + 1}" for n in largest}
    assert "... and 890 users with smaller shares" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_comparisons_keep_to_the_terminal(width: int) -> None:
    answers = {name: crowd(20, 5, name, seed) for seed, name in enumerate(NAMES)}
    text = to_terminal(comparison_document(answers, {"drf": "no"}, "t"), width=width, plain=True)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert len([line for line in text.splitlines() if line.split()[:1] == ["violation"]]) == {
        40: 3, 60: 2, 80: 1, 120: 1, 200: 1,
    }[width]  # fmt: skip


def test_long_names_are_folded_and_not_cut() -> None:
    name = "department-of-things/" * 6 + "end"
    problem = Problem.from_arrays([[1]], [[1]], users=[name])
    allocation = Allocation(problem, "drf", np.array([[1.0]]), certificate())
    text = to_terminal(allocation_document(allocation, "t"), width=60, plain=True)
    assert max(map(len, text.splitlines())) <= 60
    folded = "".join(line.split()[0] for line in text.splitlines() if line.strip())
    assert name in folded
    assert name in to_terminal(allocation_document(allocation, "t"), width=None, plain=True)


def test_names_are_neither_markup_nor_terminal_commands() -> None:
    problem = Problem.from_arrays([[1], [1]], [[1], [1]], users=["[bold]x[/bold]", "\u202ered"])
    allocation = Allocation(problem, "drf", np.array([[1.0, 0], [0, 1]]), certificate())
    for text in (
        to_terminal(allocation_document(allocation, "t"), width=100, plain=True),
        to_terminal(comparison_document({"drf": allocation}, {}, "t"), width=None, plain=True),
    ):
        assert "[bold]x[/bold]" in text
        assert "\u202e" not in text
        assert "\\u202ered" in text


def test_a_terminal_gets_emphasis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in to_terminal(allocation_document(two_servers(), "t"), width=80, plain=False)


def test_the_proof_is_stated_with_its_figures() -> None:
    text = to_terminal(allocation_document(two_servers(), "t"), width=100, plain=True)
    words = " ".join(text.split())
    said = "✓ proof holds all is well (Theorem 0) (violation 1.0e-12, tolerance 1e-09; computed"
    assert said in words


def test_the_catalogue_keeps_to_the_terminal_and_names_all() -> None:
    text = to_terminal(catalogue_document(list(CATALOGUE.values())), width=70, plain=True)
    assert max(map(len, text.splitlines())) <= 70
    assert {f"{name}:" for name in CATALOGUE} <= set(first_words(text))


@pytest.mark.parametrize(
    ("value", "written"),
    [(0, "0"), (10, "10"), (82.5, "82.5"), (12583, "12,583"), (999.97, "1,000"),
     (2.60869, "2.609"), (1e-9, "1e-09"), (3.2e15, "3.2e+15"), (0.0123456, "0.01235")],
)  # fmt: skip
def test_numbers(value: float, written: str) -> None:
    assert number(value) == written


@pytest.mark.parametrize(
    ("value", "written"), [(0, "0.00 %"), (1, "100.00 %"), (5 / 7, "71.43 %"), (2e-6, "0.0002 %")]
)
def test_percentages(value: float, written: str) -> None:
    assert percent(value) == written


def test_printable_leaves_letters_of_any_script() -> None:
    assert printable("žluťoučký 牛") == "žluťoučký 牛"
