"""Divide one problem by several mechanisms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairlead.errors import CertificateError, FairleadError, InputError, RefusalError
from fairlead.mechanisms.catalogue import CATALOGUE, COMPARED, all_mechanisms, find_mechanism, solve
from fairlead.model.allocation import Allocation
from fairlead.model.arguments import one_or_several
from fairlead.model.notebooks import Shown, frame_of
from fairlead.model.problem import Problem, check_problem


class Allocations(dict[str, Allocation], Shown):
    """Allocations of one problem by mechanism.

    Attributes
    ----------
    refused : dict of str to str
        The reasons why mechanisms do not admit the problem.
    unproved : dict of str to CertificateError
        The error of each mechanism whose answer violated its condition.
    failed : dict of str to FairleadError
        The error of each user-defined mechanism that raised an exception or returned no allocation.
    """

    frames = ("users", "mechanisms")

    def __init__(self, answers: Mapping[str, Allocation]) -> None:
        super().__init__(answers)
        self.refused: dict[str, str] = {}
        self.unproved: dict[str, CertificateError] = {}
        self.failed: dict[str, FairleadError] = {}

    def __repr__(self) -> str:
        """Return a summary on one line."""
        missing = [f"{len(self.unproved)} not proved"] if self.unproved else []
        missing += [f"{len(self.failed)} failed"] if self.failed else []
        missing += [f"{len(self.refused)} refused"] if self.refused else []
        more = f" ({', '.join(missing)})" if missing else ""
        return f"<Allocations by {', '.join(self) or 'no mechanism'}{more}>"

    def _columns(self, what: str) -> Mapping[str, Any]:
        answers = list(self.values())
        if what == "users":
            users = answers[0].problem.users.names if answers else ()
            tasks = {name: answer.user_tasks for name, answer in self.items()}
            return {"user" if "user" not in tasks else "user_": list(users)} | tasks
        resources = answers[0].problem.cluster.resources if answers else ()
        faults = {name: str(fault) for name, fault in (self.unproved | self.failed).items()}
        columns = {
            "tasks": [float(answer.tasks.sum()) for answer in answers],
            "least_share": [float(answer.dominant_share.min(initial=1.0)) for answer in answers],
            "violation": [answer.certificate.violation for answer in answers],
            **{f"used_{r}": [answer.utilization[r] for answer in answers] for r in resources},
        }
        nothing = [None] * len(faults)
        return {
            "mechanism": [*self, *faults],
            **{heading: [*values, *nothing] for heading, values in columns.items()},
            "fault": [*([None] * len(answers)), *faults.values()],
        }


def compare(
    problem: Problem, mechanisms: str | Sequence[str] | None = None, **options: Any
) -> Allocations:
    """Divide the cluster by several mechanisms.

    Parameters
    ----------
    problem : Problem
    mechanisms : str or sequence of str, optional
        One or several names from the catalogue, or of user-defined mechanisms. When absent: all
        mechanisms of this package for divisible tasks that admit the problem, without variants.
    **options
        Options of mechanisms, such as ``alpha``; each mechanism gets the options that it takes.

    Returns
    -------
    Allocations
        By mechanism, in the given order. ``refused`` has the mechanisms that do not admit the
        problem, ``unproved`` those without a certified answer, and ``failed`` the user-defined
        mechanisms that raised an exception.

    Raises
    ------
    InputError
        For an unknown mechanism, or an option that no compared mechanism takes.
    RefusalError
        When a mechanism in `mechanisms` does not admit the problem.

    Examples
    --------
    >>> import fairlead
    >>> problem = fairlead.Problem.from_arrays([[9, 18]], [[1, 4], [3, 1]])
    >>> found = fairlead.compare(problem, ["drf", "proportional"])
    >>> {name: allocation.user_tasks.round(3).tolist() for name, allocation in found.items()}
    {'drf': [3.0, 2.0], 'proportional': [4.091, 1.636]}
    """
    check_problem(problem)
    for given in mechanisms if isinstance(mechanisms, list | tuple) else ():
        if callable(given):
            find_mechanism(given)  # raises InputError, which tells how to name a function
    asked = None if mechanisms is None else one_or_several(mechanisms, "mechanisms")
    names = dict.fromkeys(COMPARED if asked is None else asked)
    rows = {name: find_mechanism(name) for name in names}
    for option in options:
        if not any(option in row.options for row in rows.values()):
            raise InputError("none of these mechanisms takes it", option)
    found = Allocations({})
    for name, row in rows.items():
        taken = {option: value for option, value in options.items() if option in row.options}
        try:
            found[name] = solve(problem, name, **taken)
        except RefusalError as refusal:
            if asked is not None:
                raise
            found.refused[name] = refusal.reason
        except CertificateError as failure:
            found.unproved[name] = failure
        except FairleadError as fault:
            if name in CATALOGUE:
                raise
            found.failed[name] = fault
    return found


def catalogue_frame() -> Any:
    """Return the mechanisms as a frame of names, summaries, papers and proved properties.

    >>> import fairlead
    >>> "ps-dsf" in fairlead.mechanisms()["name"]
    True
    """
    rows = all_mechanisms()
    return frame_of(
        {
            "name": [row.name for row in rows],
            "summary": [row.summary for row in rows],
            "paper": [row.paper for row in rows],
            "proved": [[claim.property for claim in row.proved] for row in rows],
            "accepts": [list(row.accepts) for row in rows],
            "whole_tasks": [row.whole_tasks for row in rows],
        }
    )
