"""What is reproduced of Li, Liu, Zhang and Zhang 2019."""

from __future__ import annotations

from fairlead.papers.reproduction import Entry, Paper

LI = Paper(
    "dynamic",
    "Li, Liu, Zhang and Zhang",
    "A note on dynamic fair division of multiple resources",
    "2019",
)

ENTRIES: tuple[Entry, ...] = ()
