"""Tables of studies and replays for papers, from figures written by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from fairlead.errors import InputError
from fairlead.report.run_tables import FigureColumn, parse_columns, study_text
from fairlead.simulation.studies import Study, Variation

NAN = np.nan


def study_of(
    loads: Sequence[float], waits: Sequence[Sequence[float]], changes: Sequence[Sequence[float]]
) -> Study:
    """Return a study of mean waits in seconds; the fairness errors differ only by rounding."""
    policies = ("drf/best-fit", "easy/best-fit", "slots:3")[: len(waits)]
    variations = tuple(Variation("day", load=load, seed=k) for k, load in enumerate(loads))
    error = np.full((len(waits), len(loads)), 0.5)
    figures = {"mean_wait": np.array(waits), "fairness_error": error}
    differences = {"mean_wait": np.array(changes), "fairness_error": error * 1e-16}
    return Study(policies, variations, figures, differences, {})


TWO = study_of([1, 1], [[7200, 7200], [3600, 10_800]], [[0, 0], [-3600, 3600]])


def rows_of(found: Study) -> list[list[str]]:
    caption, _, head, _, *rows = study_text(found, "markdown", None).splitlines()
    assert caption.endswith(".")
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in (head, *rows)]


def test_rounding_beside_the_figures_is_0() -> None:
    head, row = rows_of(TWO)
    assert head == ["policy", "mean wait (s)", "fairness error"]
    # The t quantile of one degree of freedom is 12.706, and the deviation 3600 * sqrt(2).
    assert row == ["easy/best-fit", "0 (−45,742 to 45,742)", "0 (0 to 0)"]


def test_each_load_has_its_own_row() -> None:
    waits = [[1, 1, 1, 1], [2, 2, 4, 4]]
    found = study_of([1, 1.5, 1, 1.5], waits, [[0] * 4, [1, 1, 3, 3]])
    head, first, second = rows_of(found)
    assert head[:2] == ["policy", "load"]
    assert [first[:2], second[:2]] == [["easy/best-fit", "1"], ["easy/best-fit", "1.5"]]
    assert "over 2 pairs.}\\label{tab:study}" in found.to_latex()
    assert "over 2 pairs.}\\label{tab:waits}" in found.to_latex(label="tab:waits")
    one = study_of([1], [[1], [2]], [[0], [1]])
    assert "\\caption{Mean differences from drf/best-fit, of 1 pair.}" in one.to_latex()


def test_one_policy_has_means_of_its_runs() -> None:
    alone = study_of([2, 2, 2], [[60, 120, 180]], [[0, 0, 0]])
    text = alone.to_latex("mean_wait:min")
    assert "\\caption{Means at load 2, with 95\\% confidence intervals" in text
    assert "over 3 runs.}" in text
    assert "drf/ & $2.0$ \\\\\nbest-fit & ($-0.5$ to $4.5$) \\\\" in text  # 2 -+ 4.303 / sqrt(3)


def test_missing_pairs_are_counted_and_shown() -> None:
    waits = [[1, 1], [2, NAN], [NAN, NAN]]
    found = study_of([1, 1], waits, [[0, 0], [1, NAN], [NAN, NAN]])
    text = found.to_latex(["mean_wait"])
    assert "drf/best-fit, of 0 to 1 pair.}" in text
    rows = [line.split(" & ")[1] for line in text.splitlines() if " & " in line][2:]
    assert rows == ["$1$ \\\\", " \\\\", "-- \\\\"]


def test_rows_of_papers_are_set_apart() -> None:
    found = study_of([1, 1], [[1, 2], [1, 3], [2, 2]], [[0, 0], [0, 1], [1, 0]])
    lines = found.to_latex("mean_wait=Wait").splitlines()
    assert lines.count("\\addlinespace") == 1
    assert lines[-1] == "\\end{table}"
    assert "policy & Wait \\\\" in lines


KNOWN = ("policy", "tasks", "mean_wait", "p95_wait", "jain")
TIMES = {"mean_wait", "p95_wait"}


@pytest.mark.parametrize(
    ("text", "column", "heading", "in_words"),
    [
        ("mean_wait", FigureColumn("mean_wait"), "mean_wait", "mean wait (s)"),
        ("mean_wait:m", FigureColumn("mean_wait", "min"), "mean_wait (min)", "mean wait (min)"),
        ("p95_wait:h", FigureColumn("p95_wait", "h"), "p95_wait (h)", "95 % wait (h)"),
        ("p95_wait:d=Wait", FigureColumn("p95_wait", "d", "Wait"), "Wait", "Wait"),
        ("jain", FigureColumn("jain"), "jain", "jain"),
    ],
)
def test_columns_have_units_and_headings(
    text: str, column: FigureColumn, heading: str, in_words: str
) -> None:
    (found,) = parse_columns(text, KNOWN, TIMES)
    assert found == column
    assert found.heading == heading
    assert found.heading_in_words(TIMES) == in_words


@pytest.mark.parametrize(
    ("columns", "fault"),
    [
        ("policy,waits", "there is no column 'waits'; known: policy, tasks"),
        ("policy:h", "policy takes no unit"),
        ("mean_wait:w", "mean_wait takes s or min or h or d, not 'w'"),
        ("mean_wait:", "mean_wait takes"),
        ("policy,jain=policy", "names 'policy' twice"),
        ("jain=", "jain has an empty heading"),
        ("", "there is no column ''"),
    ],
)
def test_faults_of_columns_are_named(columns: str, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        parse_columns(columns, KNOWN, TIMES)


@pytest.mark.parametrize("columns", ["jain", ["mean_wait", 3], 5, []])
def test_wrong_columns_are_refused(columns: object) -> None:
    with pytest.raises(InputError, match="columns"):
        TWO.to_latex(columns)  # type: ignore[arg-type]
