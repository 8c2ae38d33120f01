"""The hierarchical share guarantee: every queue with tasks left holds its part of the cluster.

If some user below a queue has tasks left, the queue must hold, of at least one resource of the
cluster, its part by weight (Bhattacharya et al., SoCC 2013).
"""

from __future__ import annotations

import numpy as np

from fairlead.model.ties import first_smallest
from fairlead.model.verdict import Verdict
from fairlead.properties.subject import Subject
from fairlead.properties.verdict_text import NEGLIGIBLE, format_change

NAME = "hierarchical-share-guarantee"


def check_queue_shares(subject: Subject) -> Verdict:
    """Check the guarantee of every queue; O(N Q R).

    If tasks are whole, a queue may lack one task of each of its users.
    """
    problem, holdings = subject.problem, subject.holdings
    queues = problem.users.queues
    if queues is None:
        return Verdict.not_applicable(NAME, "there are no queues")
    part, _ = queues.parts(problem.weight, ~problem.due_nothing)
    total = np.where(problem.total_capacity > 0, problem.total_capacity, 1.0)
    wants = ~problem.due_nothing & (holdings.user_tasks < problem.task_limit * (1 - NEGLIGIBLE))
    checked = np.flatnonzero(queues.queues_above(wants))
    if not checked.size:
        return Verdict.not_applicable(NAME, "no queue has a user with tasks left")
    below = [queues.users_below(int(q)) for q in checked]
    share = np.array([(holdings.user_amounts[b].sum(axis=0) / total).max() for b in below])
    if holdings.whole_tasks:
        share += [problem.task_shares[b].sum(axis=0).max() for b in below]
    margin = share / part[checked] - 1.0
    k = first_smallest(1.0 + margin)
    name = queues.names[int(checked[k])]
    has, due = f"{share[k]:.4g}", f"{part[checked[k]]:.4g}"
    if margin[k] >= -NEGLIGIBLE:
        sentence = f"every queue holds its part (least margin: {name}, {has} for {due})"
        return Verdict(NAME, "holds", {}, len(checked), sentence=sentence)
    witness = {
        "queue": name,
        "dominant_share": float(share[k]),
        "part": float(part[checked[k]]),
        "short": [queues.names[int(q)] for q in checked[margin < -NEGLIGIBLE]],
    }
    less, more = format_change(float(share[k]), float(part[checked[k]]))
    return Verdict(
        NAME,
        "fails",
        witness,
        len(checked),
        sentence=f"{name} holds at most {less} of a resource; its part is {more}",
        severity=-float(margin[k]),
    )
