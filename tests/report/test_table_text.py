"""Numbers and text of tables for papers."""

from __future__ import annotations

import polars

from fairlead.report.table_text import frame_text, in_words


def test_latex_escapes_text_and_names_its_package() -> None:
    frame = polars.DataFrame(
        {"user": ["a_b & 50%", None], "dominant_share": [-0.2576, 12_583.4]}, strict=False
    )
    lines = [" ".join(line.split()) for line in frame_text(frame, "latex").splitlines()]
    assert lines == [
        "% needs \\usepackage{booktabs}",
        "\\begin{tabular}{lr}",
        "\\toprule",
        "user & dominant share \\\\",
        "\\midrule",
        "a\\_b \\& 50\\% & $-$0.2576 \\\\",
        "-- & 12,583 \\\\",
        "\\bottomrule",
        "\\end{tabular}",
    ]


def test_csv_keeps_names_and_all_digits() -> None:
    frame = polars.DataFrame({"dominant_share": [-1 / 3]})
    assert frame_text(frame, "csv") == f"dominant_share\n{-1 / 3}\n"


def test_figures_have_words_and_resources_their_names() -> None:
    assert in_words("mean_bounded_slowdown") == "mean bounded slowdown"
    assert in_words("p95_wait") == "95 % wait"
    assert in_words("used_my_gpu") == "used my_gpu"
