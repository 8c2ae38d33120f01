"""Problem files that the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SMALL = """\
fairlead: 1
resources: {cpu: cores, memory: GB}
servers:
  - {name: high-memory, capacity: {cpu: 2, memory: 12}}
  - {name: high-cpu, capacity: {cpu: 12, memory: 2}}
users:
  - {name: ana, demand: {cpu: 0.2, memory: 1}}
  - {name: bo, demand: {cpu: 1, memory: 0.2}}
"""

CONSTRAINED = SMALL.replace("memory: 0.2}}", "memory: 0.2}, servers: [high-cpu]}")
