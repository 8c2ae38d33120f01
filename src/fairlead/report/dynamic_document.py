"""Documents of a division among users that arrive one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairlead.mechanisms.dynamic_run import DynamicRun
from fairlead.model.ties import first_smallest
from fairlead.model.verdict import Verdict
from fairlead.report.document import (
    FAILS,
    HOLDS,
    Content,
    Document,
    Prose,
    Section,
    Statement,
    Table,
    Tiles,
    count_cell,
    figure,
    numbers,
    proof,
    words,
)
from fairlead.report.numbers import counted, named, percent, precise_percent

# Properties that hold, in words.
MEANING = {
    "sharing-incentive": "no user ever has less than an equal split, by weight",
    "dynamic-envy-freeness": (
        "no user envies a later one, or a user that was given more after its own arrival"
    ),
    "dynamic-pareto-optimality": "no user could ever have been given more unless another lost",
    "strategy-proofness": "no lie about demands pays",
}
_RULE = (
    "Users arrive in the file's order. After each arrival the present users may use a fraction of "
    "every resource: their weight over the weight of all users. The users with the least level "
    "(dominant share per unit of weight) rise together until a resource that they demand is used "
    "up to this fraction. No user gives anything back."
)


def dynamic_document(
    run: DynamicRun,
    verdicts: Sequence[Verdict],
    title: str,
    *,
    all_steps: bool = True,
) -> Document:
    """Return the document of a run: shares, those of DRF with all users known, and the proof.

    `verdicts` are of the checked properties. The plain values have only the last step unless
    `all_steps`.
    """
    absent = f"; due nothing, left out: {named(run.due_nothing, 3)}" if run.due_nothing else ""
    resources = zip(run.problem.cluster.resources, run.used.tolist(), strict=True)
    used = [(f"{name} used", percent(part), "") for name, part in resources]
    return Document(
        title,
        "arrivals",
        f"{counted(run.n_steps, 'user')}, one by one, on all servers as one pool, divided by "
        f"dynamic DRF ({run.solver}){absent}",
        _verdict(run, verdicts),
        [
            Section("Users", [Prose(_RULE, "small"), _users(run)]),
            Section("Use of resources", [Tiles(used)]),
            Section("Properties", [_finding(verdict) for verdict in verdicts]),
            proof(run.certificate, f"the solver ({run.solver}) that found the levels"),
        ],
        lambda: {
            **run.to_dict(all_steps=all_steps),
            "properties": [verdict.to_dict() for verdict in verdicts],
        },
    )


def _verdict(run: DynamicRun, verdicts: Sequence[Verdict]) -> Statement:
    ratio = run.levels / run.full_knowledge_levels
    worst = first_smallest(ratio)
    text = (
        f"In the end the least level is {percent(float(ratio[-1]))} of the least level under DRF "
        f"with all users known from the start. This ratio was lowest after step {worst + 1:,}: "
        f"{percent(float(ratio[worst]))}."
    )
    failed = [verdict.name for verdict in verdicts if verdict.verdict == "fails"]
    holding = sum(verdict.verdict == "holds" for verdict in verdicts)
    if failed:
        text += f" NOT EVERY PROPERTY HOLDS: {', '.join(failed)}."
    elif verdicts:
        text += f" Properties that hold: {holding} of {len(verdicts)}"
        text += "." if holding == len(verdicts) else "; the rest could not be refuted."
    if not run.certificate.holds:
        text += " NOT PROVED."
    return Statement(FAILS if failed or not run.certificate.holds else HOLDS, text)


def _finding(verdict: Verdict) -> Statement:
    meaning = MEANING.get(verdict.name, verdict.name)
    if verdict.verdict == "fails":
        shown = ", ".join(f"{key} {value}" for key, value in verdict.witness.items())
        return Statement("fails", shown.replace("_", " "), verdict.name, "FAILS")
    if verdict.verdict == "unknown":
        looked = f"{verdict.detail} looked at"
        return Statement("unknown", meaning, verdict.name, "not refuted", looked)
    return Statement("holds", meaning, verdict.name, "holds", verdict.detail)


def _users(run: DynamicRun) -> Table:
    """List the users; of many, the first and the last arrivals."""
    known = run.full_knowledge_shares

    def row(n: int) -> list[Content]:
        return [
            run.problem.users.names[n],
            figure(float(run.problem.weight[n])),
            count_cell(n + 1),
            *(
                figure(float(shares[n]), precise_percent)
                for shares in (run.levels, run.shares, known)
            ),
            figure(float(run.shares[n] / known[n]), percent),
        ]

    headings = ("weight", "step", "least level then", "share now", "if all were known", "ratio")
    return Table(
        "Users and their shares",
        [*words("user"), *numbers(*headings)],
        run.n_steps,
        row,
        size=np.abs(np.arange(run.n_steps) - 0.5 * (run.n_steps - 1)),
        each="user",
        rest="between them",
    )
