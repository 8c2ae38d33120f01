"""The document of a division among users that arrive one by one, and its pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairlead.mechanisms.dynamic_run import DynamicRun
from fairlead.model.cluster import FloatArray, IntArray
from fairlead.model.ties import first_smallest
from fairlead.model.verdict import Verdict
from fairlead.report.charts import (
    COLOURS,
    DASHES,
    INK,
    USERS_WITH_A_ROW_EACH,
    Figure,
    Trace,
    dots,
    hover,
    layout,
    line,
    listed,
    thinned,
)
from fairlead.report.document import (
    FAILS,
    HOLDS,
    Block,
    Cell,
    Column,
    Content,
    Document,
    Picture,
    Prose,
    Section,
    Statement,
    Table,
    Tiles,
    proof,
    words,
)
from fairlead.report.numbers import (
    UNCHANGED,
    counted,
    named,
    number,
    percent,
    precise_percent,
    short_percent,
)

# Beyond this many rows a table takes long to lay out, and nobody reads it.
ROWS_IN_PIPE = 2000
# Lines of a picture, names in its key, points of a line, and steps of what was used.
LINES, NAMED_LINES, POINTS, STEPS_OF_USE = 60, 10, 1500, 240

# What a verdict says when it holds, in a reader's words.
MEANING = {
    "sharing-incentive": "nobody ever has less than an equal split, by weight",
    "dynamic-envy-freeness": "nobody envies who came later, or was given more since it came",
    "dynamic-pareto-optimality": "nobody could ever have been given more at nobody's cost",
    "strategy-proofness": "no lie about demands pays",
}
_HOW = (
    "Users arrive in the file's order. After each arrival those present may use their part of "
    "every resource, by weight: those of the least level, the dominant share per unit of weight, "
    "rise together until something that they demand is used up to that part. Nobody ever gives "
    "anything back."
)


def dynamic_document(
    run: DynamicRun,
    verdicts: Sequence[Verdict],
    title: str,
    left_out: Sequence[str] = (),
    *,
    all_steps: bool = True,
) -> Document:
    """Show who got what when, beside DRF that knows everybody, and why this is the answer.

    Parameters
    ----------
    run : DynamicRun
    verdicts : sequence of Verdict
        Of the properties that were checked.
    all_steps : bool
        Whether the plain values have all steps, or only the last.

    Notes
    -----
    The other arguments are as in `fairlead.report.allocation.allocation_document`.
    """
    absent = (
        f"; due nothing, and so left out: {named(run.due_nothing, 3)}" if run.due_nothing else ""
    )
    return Document(
        title,
        "arrivals",
        f"{counted(run.n_steps, 'user')}, one by one, on all servers as one pool, divided by "
        f"dynamic DRF ({run.solver}){absent}",
        _verdict(run, verdicts),
        _blocks(run, verdicts),
        lambda: {
            **run.to_dict(all_steps=all_steps),
            "properties": [verdict.to_dict() for verdict in verdicts],
        },
        left_out,
    )


def _verdict(run: DynamicRun, verdicts: Sequence[Verdict]) -> Statement:
    ratio = run.levels / run.full_knowledge_levels
    worst = first_smallest(ratio)
    lowest = f"it was lowest, {short_percent(float(ratio[worst]))}, after step {worst + 1:,}"
    if ratio[-1] - ratio[worst] <= UNCHANGED * ratio[-1]:
        lowest = "it was never lower"
    said = (
        f"In the end the least level is {short_percent(float(ratio[-1]))} of what DRF would give, "
        f"had it known everybody from the start; {lowest}."
    )
    failed = [verdict.name for verdict in verdicts if verdict.verdict == "fails"]
    holding = sum(verdict.verdict == "holds" for verdict in verdicts)
    if failed:
        said += f" NOT EVERY PROPERTY HOLDS: {', '.join(failed)}."
    elif holding == len(verdicts) > 0:
        said += f" All {holding} properties hold." if holding > 1 else " The one property holds."
    elif verdicts:
        hold = "holds" if holding == 1 else "hold"
        said += f" {holding} of {len(verdicts)} properties {hold}; the rest could not be refuted."
    if not run.certificate.holds:
        said += " NOT PROVED."
    return Statement(FAILS if failed or not run.certificate.holds else HOLDS, said)


def _blocks(run: DynamicRun, verdicts: Sequence[Verdict]) -> list[Block]:
    shown, all_users = len(shown_users(run)), run.n_steps
    sample = f"; {shown} of {all_users:,} users, evenly spaced" if shown < all_users else ""
    per_weight = " Heights are shares per unit of weight." if is_weighted(run) else ""
    resources = zip(run.problem.cluster.resources, run.used.tolist(), strict=True)
    used = [(f"{name} used", percent(part), "", part) for name, part in resources]
    return [
        Picture(
            f"One line per user from its arrival (the dot) on{sample}. Lines that meet go on "
            f"together: their users share a stair. Earlier users have wider lines; colours are "
            f"those of the table below.{per_weight}",
            lambda: staircase_figure(run),
            "Share of each user after each step; where it ended is in the table below",
        ),
        Section(
            "Who got what",
            [
                Prose(_HOW, "small"),
                _users(run),
                Picture(
                    "Dominant shares after the last step, beside those of DRF that knew everybody "
                    "from the start.",
                    lambda: shares_figure(run),
                    "Share of each user in the end; the numbers are in the table above",
                ),
            ],
        ),
        Section(
            "What was used",
            [
                Tiles(used),
                Picture(
                    "At every step some resource is used up to the part of those present, the "
                    "dashed line.",
                    lambda: use_figure(run),
                    "Part of each resource that is used after each step",
                ),
            ],
        ),
        Section("Properties", [_finding(verdict) for verdict in verdicts]),
        proof(run.certificate, f"the solver ({run.solver}) that found the levels"),
    ]


def _finding(verdict: Verdict) -> Statement:
    """Describe the result of a check."""
    meaning = MEANING.get(verdict.name, verdict.name)
    if verdict.verdict == "fails":
        shown = ", ".join(f"{key} {value}" for key, value in verdict.witness.items())
        return Statement("fails", shown.replace("_", " "), verdict.name, "FAILS")
    if verdict.verdict == "unknown":
        looked = f"{verdict.detail} looked at"
        return Statement("unknown", meaning, verdict.name, "not refuted", looked)
    return Statement("holds", meaning, verdict.name, "holds", verdict.detail)


def _users(run: DynamicRun) -> Table:
    """List everybody, or of many the first and the last arrivals."""
    known = run.full_knowledge_shares
    ratio = run.shares / known
    largest = float(max(run.shares.max(), known.max()))
    weighted = is_weighted(run)
    colour = {n: COLOURS[k % len(COLOURS)] for k, n in enumerate(shown_users(run))}

    def row(n: int) -> list[Content]:
        level, share = float(run.levels[n]), float(run.shares[n])
        weight = float(run.problem.weight[n])
        return [
            Cell(run.problem.users.names[n], swatch=colour.get(n, "")),
            *([Cell(number(weight), weight)] if weighted else []),
            Cell(f"{n + 1:,}", n + 1),
            Cell(precise_percent(level), level),
            Cell(precise_percent(share), share, part=share / largest),
            Cell(precise_percent(float(known[n])), float(known[n])),
            Cell(percent(float(ratio[n])), float(ratio[n])),
        ]

    headings = ("step", "least level then", "share now", "if all were known", "ratio")
    columns = ("weight", *headings) if weighted else headings
    return Table(
        "Users and their shares",
        (words("user"), *map(Column, columns)),
        run.n_steps,
        row,
        size=np.abs(np.arange(run.n_steps) - 0.5 * (run.n_steps - 1)),
        each="user",
        rest="between them",
        in_pipe=ROWS_IN_PIPE,
    )


def is_weighted(run: DynamicRun) -> bool:
    """Whether shares and levels differ by more than a factor."""
    return bool((run.problem.weight != run.problem.weight[0]).any())


def shown_users(run: DynamicRun) -> list[int]:
    """Return who is in the staircase: everybody, or some, evenly spaced."""
    users: list[int] = thinned(np.arange(run.n_steps), LINES).tolist()
    return users


def staircase_figure(run: DynamicRun) -> Figure:
    """Draw the share of each user over the steps, from its arrival on.

    Shares are per unit of weight where weights differ. Lines of earlier users are wider, so that
    those who share a stair are all seen.
    """
    unit = 1.0 if is_weighted(run) else float(run.problem.weight[0])
    users = shown_users(run)
    in_key = {"showlegend": len(users) <= NAMED_LINES}
    traces = [_line_of_user(run, n, unit, k, len(users)) | in_key for k, n in enumerate(users)]
    part = unit / float(run.problem.weight.sum())
    split = _limit(run, "equal split, by weight", np.array([1]), np.array([part]), "dot")
    steps = thinned(np.arange(1, run.n_steps + 1), POINTS)
    known = unit * run.full_knowledge_levels[steps - 1]
    traces += [split, _limit(run, "DRF, had all present been known", steps, known)]
    drawn = _over_steps(run, _share_of(run), 460)
    # Nobody ever has less than an equal split: below it there is nothing to see.
    highest = max(max(trace["y"]) for trace in traces)
    drawn["yaxis"] |= {"range": [0.85 * part, highest + 0.08 * (highest - 0.85 * part)]}
    return {"data": traces, "layout": drawn}


def use_figure(run: DynamicRun) -> Figure:
    """Draw how much of each resource was used after each step, beside how much could be."""
    steps = thinned(np.arange(1, run.n_steps + 1), STEPS_OF_USE)
    used = np.array([run.shares_at(k) @ run.demand[:k] for k in steps.tolist()])
    traces = []
    for r, resource in enumerate(run.problem.cluster.resources):
        said = [
            hover(resource, f"{percent(u)} used after step {k:,}")
            for k, u in zip(steps.tolist(), used[:, r].tolist(), strict=True)
        ]
        dash = DASHES[r // len(COLOURS) % len(DASHES)]
        style = {"colour": COLOURS[r % len(COLOURS)], "width": 2.5, "dash": dash}
        traces.append(_stairs(run, resource, steps, used[:, r], said, **style))
    traces.append(_limit(run, "what may be used", steps, run.budget[steps - 1]))
    return {"data": traces, "layout": _over_steps(run, "part of the resource", 340)}


def shares_figure(run: DynamicRun) -> Figure:
    """Draw everybody's share in the end beside the one under DRF that had known everybody.

    Of many users, shares are per unit of weight where weights differ, or nothing could be seen but
    the weights.
    """
    names = run.problem.users.names
    many = len(names) > USERS_WITH_A_ROW_EACH
    places = thinned(np.arange(len(names)), POINTS if many else len(names))
    traces: list[Trace] = []
    for name, shares, symbol, colour in (
        ("dynamic, in the end", run.shares, "circle", COLOURS[0]),
        ("DRF, had all been known", run.full_knowledge_shares, "diamond", COLOURS[1]),
    ):
        y = (shares / run.problem.weight if many and is_weighted(run) else shares)[places]
        said = [
            hover(names[n], f"{name}: {precise_percent(float(shares[n]))}") for n in places.tolist()
        ]
        style: dict[str, Any] = {"colour": colour, "symbol": symbol, "opacity": 0.85}
        if many:  # mere dots get rims, which would cover their neighbours
            drawn = dots(name, (places + 1).tolist(), y, said, size=4, **style)
            traces.append(drawn | {"mode": "lines+markers", "line": {"width": 0}})
        else:
            traces.append(dots(name, y, places, said, **style))
    if not many:
        return {"data": traces, "layout": listed(names, legend=True)}
    laid_out = _over_steps(run, _share_of(run), 340)
    laid_out["xaxis"]["title"] = {"text": "users, in order of arrival"}
    laid_out["yaxis"]["rangemode"] = "normal"
    # Those of DRF nearly form a line, which would hide the others.
    return {"data": traces[::-1], "layout": laid_out}


def _share_of(run: DynamicRun) -> str:
    return f"dominant share{', per unit of weight' if is_weighted(run) else ''}"


def _line_of_user(run: DynamicRun, n: int, unit: float, rank: int, n_lines: int) -> Trace:
    """Draw where a user's level changed: the largest of its kind's least levels since it came."""
    log = run.log
    mine = (log.step > n) & (log.of_kind == log.kind[n])
    step, level = log.step[mine], np.maximum.accumulate(log.level[mine])
    chosen = thinned(np.flatnonzero(np.diff(level, prepend=-1.0) > 0), POINTS)
    x, y = step[chosen], unit * level[chosen]
    name = run.problem.users.names[n]
    weight = float(run.problem.weight[n]) / unit
    said = [
        hover(name, f"{precise_percent(weight * share)} after step {k:,}")
        for k, share in zip(x.tolist(), y.tolist(), strict=True)
    ]
    width = round(6.0 - 4.5 * rank / max(1, n_lines - 1), 2)
    colour = COLOURS[rank % len(COLOURS)]
    drawn = _stairs(run, name, x, y, said, colour=colour, width=width, marks=7)
    drawn["marker"] |= {"size": [7] + [0] * len(x), "opacity": 1}
    return drawn


def _limit(run: DynamicRun, name: str, x: IntArray, y: FloatArray, dash: str = "dash") -> Trace:
    said = [f"{name}: {precise_percent(value)}" for value in y.tolist()]
    return _stairs(run, name, x, y, said, colour=INK, width=1.5, dash=dash)


def _stairs(
    run: DynamicRun, name: str, x: IntArray, y: FloatArray, said: list[str], **style: Any
) -> Trace:
    """Draw what held from each step `x` on; the last step is as long as the others."""
    x, y = np.append(x, run.n_steps + 1), np.append(y, y[-1])
    return line(name, x, y, [*said, said[-1]], steps=True, **style)


def _over_steps(run: DynamicRun, what: str, height: int) -> dict[str, Any]:
    last = run.n_steps
    margin = max(0.2, 0.01 * last)
    drawn = layout("step: users present", what, height=height, share=True, legend=True)
    ticks = {"tickvals": list(range(1, last + 1))} if last <= 25 else {"nticks": 12}
    drawn["xaxis"] |= {"range": [1 - margin, last + 1 + margin], **ticks}
    return drawn
