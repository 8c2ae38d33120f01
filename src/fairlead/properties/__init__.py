"""Fairness properties that an allocation or mechanism may have, checked with witnesses."""

__all__ = [
    "audit",
    "dynamic",
    "efficiency",
    "envy",
    "feasibility",
    "lies",
    "queue_guarantees",
    "sharing",
    "special_cases",
    "subject",
    "verdict_text",
    "witness_files",
]
