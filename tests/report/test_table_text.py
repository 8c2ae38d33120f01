"""Numbers, intervals and text of tables for papers."""

from __future__ import annotations

import polars
import pytest

from fairlead.report.table_text import ROUNDING, frame_text, halves, in_words, interval_text

NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (-0.2576, "$-0.2576$"),
        (1.2e-5, "$1.2\\times10^{-5}$"),
        (-3.4e15, "$-3.4\\times10^{15}$"),
        (12_583.4, "$12{,}583$"),
        (0.0, "$0$"),
        (-0.0, "$0$"),
        (None, "--"),
    ],
)
def test_numbers_of_latex_are_mathematics(value: float | None, shown: str) -> None:
    frame = polars.DataFrame({"x": [value]}, schema={"x": polars.Float64})
    assert f"\n{shown} \\\\\n" in frame_text(frame, "latex")


@pytest.mark.parametrize("form", ["latex", "markdown"])
def test_rounding_beside_larger_numbers_is_0(form: str) -> None:
    small = 10 * 2 * ROUNDING
    frame = polars.DataFrame({"x": [3.72e-17, small, -10.0]})
    found = frame_text(frame, form).replace("$", "")
    assert "17" not in found
    assert ("2\\times10^{-8}" if form == "latex" else "2e−08") in found
    alone = frame_text(polars.DataFrame({"x": [3.72e-17]}), "latex")
    assert "$3.72\\times10^{-17}$" in alone


def test_latex_escapes_text_and_names_its_package() -> None:
    frame = polars.DataFrame({"user": ["a_b & 50%"], "dominant_share": [0.5]})
    assert frame_text(frame, "latex").splitlines() == [
        "% needs \\usepackage{booktabs}",
        "\\begin{tabular}{lr}",
        "\\toprule",
        "user & dominant share \\\\",
        "\\midrule",
        "a\\_b \\& 50\\% & $0.5$ \\\\",
        "\\bottomrule",
        "\\end{tabular}",
    ]


def test_markdown_keeps_bars_within_cells() -> None:
    frame = polars.DataFrame({"user": ["a|b"], "gain": [-1.5]})
    *_, row = frame_text(frame, "markdown").splitlines()
    assert row.replace(" ", "") == "|a\\|b|−1.5|"


def test_csv_keeps_names_and_all_digits() -> None:
    frame = polars.DataFrame({"dominant_share": [-1 / 3]})
    assert frame_text(frame, "csv") == f"dominant_share\n{-1 / 3}\n"


@pytest.mark.parametrize(
    ("interval", "shown"),
    [
        ((-0.2576, -0.3012, -0.2140), "$-0.26$ ($-0.30$ to $-0.21$)"),  # reach .0436: 4 of .01
        ((-0.029, -0.040, -0.018), "$-0.029$ ($-0.040$ to $-0.018$)"),  # reach .011: 11 of .001
        ((-1234.6, -1634.6, -834.6), "$-1{,}235$ ($-1{,}635$ to $-835$)"),
        ((-0.001, -0.5, 0.498), "$0.0$ ($-0.5$ to $0.5$)"),  # no minus before 0
        ((0.0, 0.0, 0.0), "$0$ ($0$ to $0$)"),
        ((5.25, 5.25, 5.25), "$5.25$ ($5.25$ to $5.25$)"),
        ((5.25e5, 5.25e5 - 1e-4, 5.25e5 + 1e-4), "$525{,}000$ ($525{,}000$ to $525{,}000$)"),
        (
            (2.0e-8, 1.0e-8, 3.0e-8),
            "$2\\times10^{-8}$ ($1\\times10^{-8}$ to $3\\times10^{-8}$)",
        ),
        ((7.5, NAN, NAN), "$7.5$"),
        ((NAN, NAN, NAN), "--"),
    ],
)
def test_intervals_have_the_digits_their_width_allows(
    interval: tuple[float, float, float], shown: str
) -> None:
    assert " ".join(interval_text(*interval, "latex")) == shown


def test_differences_that_are_rounding_are_0() -> None:
    assert interval_text(3.72e-17, -2e-17, 9e-17, "latex", largest=0.1) == ("$0$", "($0$ to $0$)")
    assert interval_text(3e-4, 2e-4, 4e-4, "markdown", largest=1e4)[0] == "0.00030"


@pytest.mark.parametrize(
    ("text", "at", "parts"),
    [
        ("drf/best-fit/reserve", "/", ["drf/best-fit/", "reserve"]),
        ("easy/best-fit", "/", ["easy/", "best-fit"]),
        ("slots:14", "/", ["slots:14"]),
        ("mean bounded slowdown", " ", ["mean bounded", "slowdown"]),
    ],
)
def test_long_names_are_halved(text: str, at: str, parts: list[str]) -> None:
    assert halves(text, at) == parts


def test_figures_have_words_and_resources_their_names() -> None:
    assert in_words("mean_bounded_slowdown") == "mean bounded slowdown"
    assert in_words("p95_wait") == "95 % wait"
    assert in_words("used_my_gpu") == "used my_gpu"
