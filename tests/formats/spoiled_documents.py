"""Documents in which something is replaced, removed or added somewhere."""

from __future__ import annotations

import copy
import math
from typing import Any

from hypothesis import strategies as st

PIECES = st.sampled_from(
    [None, True, -1, 0, 1.5, 10**400, math.nan, math.inf, 1e308, "", "x", "4Gi", "ana", "big", "n0",
     "\x1b", "\ud800", "1e999", [], [[]], [3], {}, [{}], {"cpu": "1"}, {"cpu": []}, {"name": "n0"},
     {"big": 1}, {"old": "x"}]
).map(copy.deepcopy)  # fmt: skip
ODD_KEYS = (3, None, True)
ODD_MAPPINGS = st.sampled_from([{1: 2, "1": 3}, {None: 1}, {(1, 2): 3}, {True: 1}])


def spoiled(document: Any) -> st.SearchStrategy[Any]:
    """Spoil a document in one to three places."""

    def spoil(draw: st.DrawFn, value: Any) -> Any:
        if isinstance(value, list) and value and draw(st.integers(0, 4)):
            k = draw(st.integers(0, len(value) - 1))
            return [*value[:k], spoil(draw, value[k]), *value[k + draw(st.integers(0, 1)) :]]
        if isinstance(value, dict) and value and draw(st.integers(0, 4)):
            key = draw(st.sampled_from(list(value)))
            rest = {k: v for k, v in value.items() if k != key}
            new = draw(st.sampled_from([key] * 5 + ["x", *ODD_KEYS]))
            return {**rest, new: spoil(draw, value[key])}
        return draw(PIECES | ODD_MAPPINGS)

    @st.composite
    def spoil_some(draw: st.DrawFn) -> Any:
        found = document
        for _ in range(draw(st.integers(1, 3))):
            found = spoil(draw, found)
        return found

    return spoil_some()
