"""Compare two problems entry by entry."""

from __future__ import annotations

import numpy as np

from fairlead.model.problem import Problem


def assert_same(one: Problem, other: Problem) -> None:
    """Assert that two problems are equal to the last bit."""
    assert one.cluster.groups == other.cluster.groups
    assert one.cluster.resources == other.cluster.resources
    assert one.cluster.units == other.cluster.units
    assert [dict(labels) for labels in one.cluster.labels] == [
        dict(labels) for labels in other.cluster.labels
    ]
    assert one.users.names == other.users.names
    for name in ("capacity", "count"):
        np.testing.assert_array_equal(getattr(one.cluster, name), getattr(other.cluster, name))
    for name in ("demand", "weight", "eligible", "task_limit", "rates", "resource_weight"):
        ours, theirs = getattr(one.users, name), getattr(other.users, name)
        assert (ours is None) == (theirs is None), name
        if ours is not None:
            np.testing.assert_array_equal(ours, theirs, err_msg=name)
