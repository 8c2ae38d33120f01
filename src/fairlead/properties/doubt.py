"""Users whose verdicts may depend on nodes and pods that were passed over.

A verdict on incomplete holdings is a tick or a failure only if no reading of the missing part could
change it. What can change, for a user:

- its own missing pods: how much it holds, how large its average task is, and where it may run;
- a missing node: its slice, its dominant resource, and whether an unrunnable pod could run;
- another user's missing pods: the bundles that it may envy, and by anti-affinity whether its
  waiting pods could run.

A user without waiting pods cannot lack tasks, even where pods of other users are missing.
"""

from __future__ import annotations

import numpy as np

from fairlead.model.cluster import BoolArray
from fairlead.model.holdings import Holdings


def unsettled_users(holdings: Holdings) -> BoolArray:
    """Return (N,) bool: users whose tasks, running or due, may differ from the counted ones."""
    doubts, waits = holdings.doubts, holdings.waiting_per_user > 0
    if doubts is None:
        return np.zeros_like(waits)
    unsettled: BoolArray = doubts.holds | doubts.wants | doubts.servers | (waits & doubts.repels)
    return unsettled


def users_that_may_lack(holdings: Holdings) -> BoolArray:
    """Return (N,) bool: users that may lack tasks of their slice, by missing nodes or pods."""
    doubts, waits = holdings.doubts, holdings.waiting_per_user > 0
    if doubts is None:
        return np.zeros_like(waits)
    lacking: BoolArray = doubts.wants | (waits & (doubts.holds | doubts.servers))
    return lacking


def others_may_lack(holdings: Holdings) -> bool:
    """Return whether users outside of the problem may want tasks, by missing nodes or pods."""
    doubts = holdings.doubts
    if doubts is None:
        return False
    return (doubts.users and doubts.waits) or (doubts.servers and bool(holdings.unrunnable))
