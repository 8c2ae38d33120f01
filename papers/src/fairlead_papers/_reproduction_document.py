"""Documents of reproductions: printed numbers and ours, verdicts and findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from fairlead.report.document import (
    FAILS,
    HOLDS,
    MUTED,
    Block,
    Cell,
    Content,
    Document,
    Prose,
    Section,
    Statement,
    Table,
    numbers,
    pairs_table,
    table_of,
    words,
)
from fairlead.report.numbers import number, percent
from fairlead_papers.reproduction import (
    DIFFERS,
    EQUAL,
    SHAPE,
    VERDICTS,
    WITHIN,
    Entry,
    Finding,
    Reading,
    Reproduction,
    give_reason,
)

ALL_ROWS = 10_000  # more rows than any of these tables has
# The sentence that opens the document of a single table or figure.
_SINGLE_VERDICT = {
    EQUAL: "Ours is what the paper prints",
    WITHIN: "Ours is within the interval of what the paper prints",
    SHAPE: "Ours has the shape that the paper describes",
    DIFFERS: "Ours differs from the paper",
}


def catalogue_document(entries: Sequence[Entry]) -> Document:
    """Return the document of the tables and figures that can be reproduced."""
    columns = words("name", "paper", "subject", "result in the paper", "takes", "--set")
    rows = [
        [
            entry.key,
            f"{entry.paper.authors}, {entry.number}",
            entry.shows,
            entry.printed,
            entry.takes,
            ", ".join(f"{p.name}={p.default}" for p in entry.parameters),
        ]
        for entry in entries
    ]
    values = {
        entry.key: {
            "paper": f"{entry.paper.authors}, {entry.paper.title}, {entry.paper.venue}",
            "number": entry.number,
            "shows": entry.shows,
            "printed": entry.printed,
            "takes": entry.takes,
            "parameters": {
                p.name: {"default": p.default, "most": p.most} for p in entry.parameters
            },
        }
        for entry in entries
    }
    return Document(
        "papers",
        "what can be reproduced",
        f"{len(entries):,} tables, figures and examples that can be computed again",
        None,
        [table_of("What can be reproduced", columns, rows, on_terminal=ALL_ROWS)],
        lambda: {"fairlead": 1, "catalogue": values},
    )


def reproductions_document(
    found: Mapping[str, tuple[Entry, Reproduction]],
    *,
    given: Mapping[str, int] | None = None,
    details: bool = True,
    values: Callable[[], Mapping[str, Any]] = dict,
) -> Document:
    """Return the document of reproductions: verdicts and reasons, numbers and findings.

    Parameters
    ----------
    found : mapping
        Entries and their reproductions, by name.
    given : mapping, optional
        Values of --set, by parameter; experiments with a changed parameter get no verdict.
    details : bool
        Whether to show numbers, statements and tables, not only verdicts, reasons and findings.
    values : callable
        Returns the plain values for JSON.
    """
    change_texts = {key: changes_of(entry, given or {}) for key, (entry, _) in found.items()}
    one = len(found) == 1
    blocks: list[Block] = [] if one else [_verdicts(found, change_texts)]
    if details:
        blocks += [
            Section(
                f"{entry.key}: {entry.shows}" + _changes_suffix(change_texts[entry.key]),
                list(_show_one(entry, reproduction, change_texts[entry.key])),
            )
            for entry, reproduction in found.values()
        ]
    else:
        blocks += _summary(found, change_texts)
    return Document(
        next(iter(found)) if one else "Papers and our results",
        "papers, reproduced",
        "Printed numbers and ours",
        _overall_verdict(found, change_texts),
        blocks,
        values,
    )


def changes_of(entry: Entry, given: Mapping[str, int]) -> str:
    """List the parameters of an experiment that differ from their defaults: ``servers=150``."""
    usual = {parameter.name: parameter.default for parameter in entry.parameters}
    return ", ".join(f"{n}={value}" for n, value in given.items() if usual.get(n, value) != value)


def _changes_suffix(change_text: str) -> str:
    return f" (here {change_text})" if change_text else ""


def _statement_kind(reproduction: Reproduction, change_text: str) -> str:
    """Return the kind of the statement of a verdict: muted if parameters were changed."""
    if change_text:
        return MUTED
    return FAILS if reproduction.verdict == DIFFERS else HOLDS


def _overall_verdict(
    found: Mapping[str, tuple[Entry, Reproduction]], change_texts: Mapping[str, str]
) -> Statement:
    """Count the verdicts, and name the entries that differ; none with changed parameters."""
    without_verdict = [key for key in found if change_texts[key]]
    others = {key: pair for key, pair in found.items() if not change_texts[key]}
    if not others:
        changes = " or ".join(dict.fromkeys(change_texts.values()))
        sentence = f"With {changes} the experiment is not the paper's, so there is no verdict."
        return Statement(MUTED, sentence)
    verdicts = [reproduction.verdict for _, reproduction in others.values()]
    counts = [f"{verdicts.count(v):,} {v}" for v in VERDICTS if v in verdicts]
    differ = [key for key, (_, r) in others.items() if r.verdict == DIFFERS]
    unknown = [key for key in differ if not others[key][0].known_to_differ]
    known = bool(differ) and not unknown
    record = ""
    if known:
        record = ", which is a known difference" if len(differ) == 1 else ", as is known"
    if len(found) > 1:
        if without_verdict:
            counts.append(f"{len(without_verdict):,} without a verdict, as parameters were changed")
        sentence = f"{len(found):,} reproduced: {', '.join(counts)}."
        sentence += f" Ours differs in {', '.join(differ)}{record}." if differ else ""
    else:
        sentence = _SINGLE_VERDICT[verdicts[0]] + f"{record}."
    return Statement(FAILS if unknown else HOLDS, sentence)


def _verdicts(
    found: Mapping[str, tuple[Entry, Reproduction]], change_texts: Mapping[str, str]
) -> Table:
    def verdict(key: str, reproduction: Reproduction) -> Content:
        if change_texts[key]:
            return Cell(f"none, with {change_texts[key]}", kind="dim")
        return Cell(reproduction.verdict, kind="bad" if reproduction.verdict == DIFFERS else "good")

    rows: list[list[Content]] = [
        [key, entry.shows, verdict(key, reproduction)]
        for key, (entry, reproduction) in found.items()
    ]
    columns = words("name", "subject", "verdict")
    return table_of("What was reproduced", columns, rows, on_terminal=ALL_ROWS)


def _show_one(entry: Entry, reproduction: Reproduction, change_text: str) -> Iterator[Block]:
    """Yield the blocks of one reproduction: numbers, statements, tables and findings."""
    paper = entry.paper
    yield Prose(f"{paper.authors}, “{paper.title}”, {paper.venue}, {entry.number}.", "small")
    yield Prose(f"The paper: {entry.printed}.")
    yield Prose(f"Here: {reproduction.setting}")
    reason = reproduction.reason
    verdict = f"none, with {change_text}" if change_text else reproduction.verdict
    yield Statement(
        _statement_kind(reproduction, change_text),
        reason[:1].upper() + reason[1:],
        "verdict",
        verdict,
    )
    if reproduction.note:
        yield Prose(_note(reproduction, change_text), "small")
    for claim in reproduction.claims:
        yield Statement(HOLDS if claim.holds else FAILS, claim.sentence, detail=claim.measured)
    if reproduction.readings:
        yield _number_table(entry.key, reproduction.readings, change_text)
    for table in reproduction.tables:
        columns = [*words(table.headings[0]), *numbers(*table.headings[1:])]
        yield Prose(table.caption, "strong")
        yield table_of(table.caption, columns, table.rows, on_terminal=ALL_ROWS)
    yield from _findings(reproduction.findings)


def _note(reproduction: Reproduction, change_text: str) -> str:
    """Return the note; if parameters were changed, with a remark that it is about the paper's."""
    about = "With the paper's parameters: " if change_text else ""
    return f"{about}{reproduction.note}"


def _summary(
    found: Mapping[str, tuple[Entry, Reproduction]], change_texts: Mapping[str, str]
) -> Iterator[Block]:
    """Yield the reasons of verdicts other than equal, and the errors and gaps of the papers."""
    for key, (_, reproduction) in found.items():
        if reproduction.verdict != EQUAL or change_texts[key]:
            reason = give_reason(reproduction.readings, reproduction.claims, in_full=False)
            verdict = f"with {change_texts[key]}" if change_texts[key] else reproduction.verdict
            yield Prose(f"{key}: {verdict}: {reason}")
            if reproduction.note:
                yield Prose(_note(reproduction, change_texts[key]), "small")
    for key, (entry, reproduction) in found.items():
        if reproduction.findings:
            yield Prose(f"{key}: {entry.paper.authors}, {entry.number}", "strong")
        yield from _findings(reproduction.findings)


def _findings(findings: Iterable[Finding]) -> Iterator[Block]:
    """List the errors and gaps of a paper."""
    for finding in findings:
        rows = [
            ("the paper", finding.claim),
            ("found", finding.found),
            ("shown by", finding.command),
        ]
        yield pairs_table("Finding", rows)


def _number_table(key: str, readings: Sequence[Reading], change_text: str) -> Table:
    """Tabulate our numbers and the paper's; with changed parameters without verdicts."""
    rows = [
        [
            reading.what,
            _format(reading, reading.ours),
            _format(reading, reading.paper),
            _interval(reading),
            *([] if change_text else [reading.verdict]),
        ]
        for reading in readings
    ]
    columns = [*words("number"), *numbers("ours", "paper", "interval")]
    columns += [] if change_text else words("verdict")
    about = f"Numbers of {key}, ours and the paper's"
    return table_of(about, columns, rows, on_terminal=ALL_ROWS)


def _format(reading: Reading, value: float) -> str:
    return percent(value) if reading.is_share else number(value)


def _interval(reading: Reading) -> str:
    """Format the interval of a number; empty if it has none."""
    if reading.interval is None:
        return ""
    if reading.is_share:
        return f"± {100 * reading.interval:g} points"
    return f"± {number(reading.interval)}"
