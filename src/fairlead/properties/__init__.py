"""Fairness properties that an allocation or mechanism may have, checked with witnesses."""

__all__ = [
    "audit",
    "dynamic",
    "dynamic_lies",
    "efficiency",
    "envy",
    "feasibility",
    "lies",
    "queue_shares",
    "sharing",
    "special_cases",
    "subject",
    "verdict_text",
    "witness_files",
]
