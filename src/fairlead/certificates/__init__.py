"""Certificates: measure by how much an allocation violates the condition that defines it."""

from fairlead.compiled import choose_how_it_runs

__all__ = [
    "bottleneck_theorems",
    "dynamic_levels",
    "filling_replay",
    "max_min_duality",
    "overuse",
    "queue_levels",
    "turn_order",
    "utility_prices",
]

choose_how_it_runs()
