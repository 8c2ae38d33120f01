"""Documents of studies: paired differences of policies, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from fairlead.model.notebooks import Plot
from fairlead.report.charts import Axis, Dots, Figure, Line, Trace, between, rows
from fairlead.report.document import (
    MUTED,
    Block,
    Cell,
    Content,
    Document,
    Picture,
    Prose,
    Statement,
    Table,
    figure,
    numbers,
    table_of,
    words,
)
from fairlead.report.numbers import counted, duration, in_words, number, time_unit
from fairlead.report.plots import plot_figure
from fairlead.simulation.studies import DEFAULT_MEASURE, TIMES, Interval, Study

GOOD, BAD, NEUTRAL = "#2a7f4f", "#b3362b", "#6b7280"
NAMED = ("mean_wait", "fairness_error", "waiting")  # in the verdict


def study_document(
    found: Study, title: str, values: Callable[[], Mapping[str, Any]] = dict
) -> Document:
    """Return the document of a study: mean differences of policies from the first one."""
    return Document(
        title,
        "a study of policies",
        f"{len(found.policies)} {'policy' if len(found.policies) == 1 else 'policies'} in "
        f"{counted(len(found.variations), 'variation')}. Differences are from "
        f"{found.policies[0]}, in pairs; intervals are of 95 % confidence, by Student's t. Waits, "
        "completion times and slowdowns of a pair are of the jobs complete under both.",
        _verdict(found),
        list(_blocks(found)),
        values,
    )


def _verdict(found: Study) -> Statement:
    clear = [
        f"{in_words(name)} of {policy} {_interval_words(name, found.difference(name, policy))}"
        for policy in found.policies[1:]
        for name in NAMED
        if found.difference(name, policy).is_clear
    ]
    if not clear:
        *names, last = map(in_words, NAMED)
        asked = f"{', '.join(names)} or {last}"
        return Statement(MUTED, f"no clear difference of {asked} from {found.policies[0]}")
    return Statement(MUTED, f"clearly different from {found.policies[0]}: {'; '.join(clear)}")


def _blocks(found: Study) -> list[Block]:
    blocks: list[Block] = [Prose(f"Warning: {each}.", "warning") for each in found.cautions]
    picture = change_figure(found, DEFAULT_MEASURE)
    if picture is not None:
        label = in_words(DEFAULT_MEASURE)
        caption = f"Differences of the {label} from {found.policies[0]}: means, and the intervals."
        blocks.append(Picture(caption, picture, caption, f"Change of the {label}"))
    blocks.append(_means(found))
    if len(found.policies) > 1:
        blocks.append(_differences(found))
    return blocks


def _means(found: Study) -> Table:
    table: list[list[Content]] = []
    for policy in found.policies:
        cells: list[Content] = [policy]
        for name in found.figures:
            mean = found.mean(name, policy).mean
            cells.append(figure(mean, duration if name in TIMES else number))
        table.append(cells)
    columns = [*words("policy"), *numbers(*map(in_words, found.figures))]
    return table_of("Means over all variations", columns, table, each="policy")


def _differences(found: Study) -> Table:
    table: list[list[Content]] = []
    for name in found.figures:
        for policy in found.policies[1:]:
            each = found.difference(name, policy)
            kind = ("good" if each.mean < 0 else "bad") if each.is_clear else "dim"
            unit, size = _unit_of(name, each)
            ends = (f"{_signed(end / size)} {unit}".rstrip() for end in (each.low, each.high))
            mean = f"{_signed(each.mean / size)} {unit}".rstrip()
            table.append([in_words(name), policy, Cell(mean, each.mean, kind=kind), *ends])
    columns = [*words("figure", "policy"), *numbers("difference", "from", "to")]
    note = "Less is better. Grey differences may be chance: their intervals contain 0."
    about = f"Differences from {found.policies[0]}"
    return table_of(about, columns, table, each="difference", note=note, on_terminal=len(table))


def _interval_words(name: str, each: Interval) -> str:
    unit, size = _unit_of(name, each)
    mean, low, high = (_signed(value / size) for value in (each.mean, each.low, each.high))
    return f"{mean} ({low} to {high}) {unit}".rstrip()


def _unit_of(name: str, *intervals: Interval) -> tuple[str, float]:
    ends = [v for each in intervals for v in (each.mean, each.low, each.high)]
    known = [abs(v) for v in ends if np.isfinite(v)]
    return time_unit(max(known)) if name in TIMES and known else ("", 1.0)


def _signed(value: float) -> str:
    if np.isnan(value):
        return "–"
    text = number(abs(value))
    return text if text == "0" else f"{'−' if value < 0 else '+'}{text}"


def plot(found: Study, name: str) -> Plot:
    """Draw differences of the figure `name` from the first policy."""
    title = f"Change of the {in_words(name)} from {found.policies[0]}"
    why_empty = "nothing to draw without values of two policies in two variations"
    return plot_figure(title, change_figure(found, name), why_empty)


def change_figure(found: Study, name: str) -> Figure | None:
    """Draw mean differences with intervals, by policy; None without any interval."""
    changes = {policy: found.difference(name, policy) for policy in found.policies[1:]}
    changes = {policy: change for policy, change in changes.items() if change.count > 1}
    if not changes:
        return None
    each = list(changes.values())
    unit, size = _unit_of(name, *each)
    colours = [NEUTRAL if not d.is_clear else GOOD if d.mean < 0 else BAD for d in each]
    places = range(len(each))
    low, high = np.array([(d.low, d.high) for d in each]).T / size
    texts = [_interval_words(name, d) for d in each]
    label = f"change of the {in_words(name)}"
    traces: list[Trace] = [
        Line("", [0.0, 0.0], [-0.5, len(each) - 0.5], width=1.2, dash="dot"),
        between(low, high, places, NEUTRAL),
        Dots(in_words(name), [d.mean / size for d in each], places, texts, colours),
    ]
    x = Axis(f"{label} ({unit})" if unit else label, steps=8, has_grid=False)
    return Figure(traces, x, rows(list(changes)), 90 + 34 * len(each))
