"""Survey mechanisms: audit them on random problems, count violations, and shrink witnesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairlead.errors import CertificateError, RefusalError
from fairlead.executors.executor import Executor, Processes
from fairlead.formats.problem_file import document_of
from fairlead.mechanisms.catalogue import Claim, find_mechanism
from fairlead.model.allocation import FORMAT_VERSION
from fairlead.model.arguments import whole_number
from fairlead.model.problem import Problem
from fairlead.model.verdict import Verdict
from fairlead.properties import lies as lying
from fairlead.properties.audit import PROPERTIES, audit_subject, check_properties
from fairlead.properties.lies import Lie
from fairlead.properties.subject import Subject, subject_of
from fairlead.properties.witness_files import save_pair, save_problem
from fairlead_papers.setting import Setting
from fairlead_papers.surveys._shrinking import shrink, size_key
from fairlead_papers.surveys.random_problems import Distribution

# Smaller relative violations may come from the tolerance of a certified answer.
TOLERANCE = 1e-5
# A shrunk witness must keep this fraction of its severity, or this severity if that is less.
KEPT_FRACTION, SUFFICIENT_SEVERITY = 0.5, 0.02
LIES_WHILE_SHRINKING = 20
ATTEMPTS = 250  # smaller problems to try for a witness


@dataclass(frozen=True, eq=False)
class SurveyJob:
    """Random problems to audit, and the mechanisms and properties."""

    mechanisms: tuple[str, ...]
    properties: tuple[str, ...]
    distribution: Distribution
    seed: int
    numbers: range  # of the problems: the same seed and number give the same problem
    lies: int  # to try on each problem


@dataclass(frozen=True, eq=False)
class JobFindings:
    """The findings on the problems of a job."""

    cells: dict[tuple[str, str], SurveyCell]  # by mechanism and property
    unproved: dict[str, int]  # by mechanism, problems without a certified answer
    refused: dict[str, int]  # by mechanism, problems that its definition does not admit


def audit_job(job: SurveyJob) -> JobFindings:
    """Audit all mechanisms on the problems of a job."""
    cells: dict[tuple[str, str], SurveyCell] = {}
    unproved, refused = dict.fromkeys(job.mechanisms, 0), dict.fromkeys(job.mechanisms, 0)
    for number in job.numbers:
        problem = job.distribution.draw(np.random.default_rng([job.seed, number]))
        for name in job.mechanisms:
            try:
                found = _audit_one(name, problem, job, number)
            except RefusalError:
                refused[name] += 1
                continue
            except CertificateError:
                unproved[name] += 1
                continue
            for cell in found:
                key = (name, cell.property)
                cells[key] = cells[key].merge(cell) if key in cells else cell
    return JobFindings(cells, unproved, refused)


def _audit_one(name: str, problem: Problem, job: SurveyJob, number: int) -> list[SurveyCell]:
    """Audit a mechanism on one problem; return a cell for each property with met premises.

    Raises RefusalError and CertificateError as the mechanism does.
    """
    row = find_mechanism(name)
    found = audit_subject(
        subject_of(problem, name), properties=job.properties, lies=job.lies, seed=number
    )
    cells = []
    for verdict in found:
        if not verdict.applies or (verdict.verdict == "unknown" and not verdict.searched):
            continue
        claim = row.claim(verdict.name)
        covered = claim is not None and claim.covers(problem)
        fails = verdict.verdict == "fails" and verdict.severity > TOLERANCE
        lie = found.lie if verdict.name == lying.NAME else None
        witness = Witness(problem, verdict, lie, covered, number) if fails else None
        cells.append(
            SurveyCell(
                name,
                verdict.name,
                claim,
                asked=1,
                covered=int(covered),
                violations=int(fails),
                refutations=int(fails and covered),
                witness=witness,
            )
        )
    return cells


def shrink_witness(cell: SurveyCell) -> SurveyCell:
    """Shrink the witness of a cell, if it has one."""
    witness = cell.witness
    if witness is None:
        return cell
    best = [witness]
    enough = max(min(KEPT_FRACTION * witness.verdict.severity, SUFFICIENT_SEVERITY), TOLERANCE)

    def still_fails(problem: Problem) -> bool:
        # The claim must cover the smaller problem exactly if it covers the witness's.
        if cell.claim is not None and cell.claim.covers(problem) != witness.covered:
            return False
        found = _check_again(cell, problem, best[0])
        if found is None or not found.verdict.severity >= enough:
            return False
        best[0] = found
        return True

    shrink(witness.problem, still_fails, ATTEMPTS)
    return replace(cell, witness=best[0])


def _check_again(cell: SurveyCell, problem: Problem, witness: Witness) -> Witness | None:
    """Return the witness on another problem; None if the mechanism has no answer to it."""
    try:
        subject = subject_of(problem, cell.mechanism)
        lie = None if witness.lie is None else _translate_lie(witness, subject)
        if cell.property == lying.NAME:
            if lie is None:
                return None
            verdict, lie = lying.search_lies(
                subject, LIES_WHILE_SHRINKING, witness.number, first=lie
            )
        else:
            verdict = audit_subject(subject, properties=(cell.property,))[0]
    except (RefusalError, CertificateError):
        return None
    return Witness(problem, verdict, lie, witness.covered, witness.number)


def _translate_lie(witness: Witness, subject: Subject) -> Lie | None:
    """Return the witness's lie for a smaller problem; None if the problem lacks the liar."""
    before, now = witness.problem, subject.given
    assert witness.lie is not None
    user = before.users.names[witness.lie.user]
    if user not in now.users.names:
        return None
    n = now.users.names.index(user)
    resource = [before.cluster.resources.index(r) for r in now.cluster.resources]
    group = [before.cluster.groups.index(g) for g in now.cluster.groups]
    rates = witness.lie.rates
    changed = witness.lie.eligible[group] != before.users.eligible[witness.lie.user, group]
    return Lie(
        user=n,
        demand=witness.lie.demand[resource],
        eligible=now.users.eligible[n] ^ changed,
        rates=None if rates is None else rates[group],
    )


@dataclass(frozen=True, eq=False)
class Witness:
    """A problem on which a mechanism lacks a property."""

    problem: Problem
    verdict: Verdict  # of the audit on this problem
    lie: Lie | None  # for strategy-proofness, the lie that pays
    covered: bool  # whether a claim covers this problem
    number: int  # of the random problem from which it was shrunk

    def sort_key(self) -> tuple[Any, ...]:
        """Return a sort key: witnesses against a claim first, then small ones, then early ones."""
        return (not self.covered, *size_key(self.problem), self.number)


@dataclass(frozen=True, eq=False)
class SurveyCell:
    """The findings on one property of one mechanism."""

    mechanism: str
    property: str
    claim: Claim | None  # the proof that a paper claims, with its conditions
    asked: int = 0  # problems that meet the premises of the property
    covered: int = 0  # of these, problems that the claim covers
    violations: int = 0  # problems on which the property fails
    refutations: int = 0  # of these, problems that the claim covers
    witness: Witness | None = None  # the smallest witness against the property

    def merge(self, other: SurveyCell) -> SurveyCell:
        """Return a cell with the sums of both counts and the smaller witness."""
        witnesses = [w for w in (self.witness, other.witness) if w is not None]
        return replace(
            self,
            asked=self.asked + other.asked,
            covered=self.covered + other.covered,
            violations=self.violations + other.violations,
            refutations=self.refutations + other.refutations,
            witness=min(witnesses, key=Witness.sort_key) if witnesses else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the cell as plain values, for JSON."""
        values: dict[str, Any] = {
            "mechanism": self.mechanism,
            "property": self.property,
            "claimed": self.claim is not None,
        }
        if self.claim is not None and self.claim.without:
            values["claimed_without"] = list(self.claim.without)
        values |= {
            "asked": self.asked,
            "violations": self.violations,
            "refutations": self.refutations,
        }
        if self.witness is not None:
            values["witness"] = {
                "problem": document_of(self.witness.problem),
                "verdict": self.witness.verdict.to_dict(),
            }
        return values


LIES = 60
# Problems of one job.
CHUNK = 5


@dataclass(frozen=True, eq=False)
class Survey:
    """A table of mechanisms and properties, with counts of violations and witnesses."""

    mechanisms: tuple[str, ...]
    properties: tuple[str, ...]
    problems: int  # number of random problems
    seed: int
    distribution: Distribution
    cells: dict[tuple[str, str], SurveyCell]  # by mechanism and property
    unproved: dict[str, int]  # by mechanism, problems without a certified answer
    refused: dict[str, int]  # by mechanism, problems that its definition does not admit

    @property
    def holds(self) -> bool:
        """Whether no claim was refuted."""
        return not any(cell.refutations for cell in self.cells.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the survey as plain values, for JSON."""
        return {
            "fairlead": FORMAT_VERSION,
            "problems": self.problems,
            "seed": self.seed,
            "distribution": self.distribution.to_dict(),
            "unproved": self.unproved,
            "refused": self.refused,
            "table": [cell.to_dict() for cell in self.cells.values()],
        }


def survey(
    mechanisms: Sequence[str],
    problems: int,
    *,
    distribution: Distribution | None = None,
    properties: Sequence[str] = PROPERTIES,
    seed: int = 0,
    lies: int = LIES,
    executor: Executor | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Survey:
    """Audit mechanisms on random problems, and find the smallest witness against each property.

    Parameters
    ----------
    mechanisms : sequence of str
        Names from the catalogue.
    problems : int
        Number of random problems, at least 1. Problem k does not depend on this number.
    distribution : Distribution, optional
        That of the problems; the default one when absent.
    properties : sequence of str
        Properties to check.
    seed : int
        Seed of the problems and lies.
    lies : int
        Lies to try on each problem.
    executor : Executor, optional
        Audits problems in parallel; the processors of this machine when absent. The result does
        not depend on it.
    on_progress : callable, optional
        Called with the name of the step, the finished jobs and all jobs.

    Raises
    ------
    InputError
        For an unknown mechanism or property, or a number out of range.
    """
    for name in mechanisms:
        find_mechanism(name)
    whole_number(problems, "random", 1)
    for what, number in (("lies", lies), ("seed", seed)):
        whole_number(number, what)
    distribution = distribution or Distribution()
    checked = check_properties(properties)
    wanted = tuple(name for name in PROPERTIES if name in checked)
    names = tuple(dict.fromkeys(mechanisms))
    cells = {
        (name, property_name): SurveyCell(
            name, property_name, find_mechanism(name).claim(property_name)
        )
        for name in names
        for property_name in wanted
    }
    unproved, refused = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    jobs = [
        SurveyJob(names, wanted, distribution, seed, range(k, min(k + CHUNK, problems)), lies)
        for k in range(0, problems, CHUNK)
    ]
    executor = executor or Processes()
    parts = 0

    def count(_: int, part: JobFindings) -> None:
        nonlocal parts
        parts += 1
        for key, cell in part.cells.items():
            cells[key] = cells[key].merge(cell)
        for name in names:
            unproved[name] += part.unproved[name]
            refused[name] += part.refused[name]
        if on_progress is not None:
            on_progress("problems", min(parts * CHUNK, problems), problems)

    executor.do_all(audit_job, jobs, count)
    with_witness = [cell for cell in cells.values() if cell.witness is not None]
    shrunk: dict[tuple[str, str], SurveyCell] = {}

    def add_shrunk(_: int, cell: SurveyCell) -> None:
        shrunk[cell.mechanism, cell.property] = cell
        if on_progress is not None:
            on_progress("witnesses", len(shrunk), len(with_witness))

    executor.do_all(shrink_witness, with_witness, add_shrunk)
    return Survey(names, wanted, problems, seed, distribution, cells | shrunk, unproved, refused)


def save_survey_witnesses(survey: Survey, folder: Path) -> list[Path]:
    """Write the smallest witness against each property of each mechanism as a problem file.

    Returns the files: ``MECHANISM.PROPERTY.yaml``, and for strategy-proofness also the problem with
    the lie, ``MECHANISM.strategy-proofness.lie.yaml``. Creates the folder; raises InputError when a
    file cannot be written.
    """
    written = []
    for cell in survey.cells.values():
        if cell.witness is None:
            continue
        name = f"{cell.mechanism}.{cell.property}"
        if cell.witness.lie is not None:
            problem = cell.witness.problem
            written += save_pair(problem, cell.witness.lie, folder, name, f"{name}.lie")
        else:
            written.append(save_problem(cell.witness.problem, folder, name))
    return written


_IN_WORDS = {
    "single-server-drf": "DRF on one server",
    "pareto-optimality": "Pareto optimality",
    "envy-freeness": "envy-freeness",
    "strategy-proofness": "strategy-proofness",
    "single-resource-fairness": "single-resource fairness",
}
# The names of a mechanism and a property.
MechanismProperty = tuple[str, str]


@dataclass(frozen=True)
class Count:
    """The result of a search for violations of one property by one mechanism."""

    violations: int  # problems on which it fails
    asked: int  # problems that meet the premises of the property

    @property
    def holds(self) -> bool:
        """Whether problems met the premises, and the property held on all of them."""
        return self.violations == 0 and self.asked > 0

    @property
    def sentence(self) -> str:
        """Both counts, in a few words."""
        return f"{self.violations} violations in {self.asked} problems"

    def __str__(self) -> str:
        return f"{self.violations} / {self.asked}"


def count_violations(
    setting: Setting,
    mechanisms: tuple[str, ...],
    properties: tuple[str, ...],
    distribution: Distribution,
    problems: int,
    lies: int,
) -> dict[MechanismProperty, Count]:
    """Audit random problems, and count violations by mechanism and property.

    `lies` is the number of lies to try on each problem, for strategy-proofness.
    """
    counts = {
        (name, property_name): Count(0, 0) for name in mechanisms for property_name in properties
    }
    jobs = [
        SurveyJob(mechanisms, properties, distribution, setting.seed, range(k, k + 1), lies)
        for k in range(problems)
    ]
    for found in setting.do_all("problems audited", audit_job, jobs):
        for key, cell in found.cells.items():
            so_far = counts[key]
            counts[key] = Count(so_far.violations + cell.violations, so_far.asked + cell.asked)
    return counts


def in_words(property_name: str) -> str:
    """Return the name of a property as it is written in a sentence."""
    return _IN_WORDS.get(property_name, property_name.replace("-", " "))
