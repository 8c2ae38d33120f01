"""The scheduler of whole tasks: it adds and removes servers, queues and tasks, and places tasks.

Plain typed Python, compiled by mypyc where there is a C compiler.

- `scheduler`: the public class.
- `policies`: policies by name; `random_order`: random orders of servers.
- `event_loop`: the core of replays; `own_rules`: user-defined policies, for replays only.
- `explanation`, `live_shares`: answers about waiting tasks and about shares.
- `argument_checks`: exact amounts, names and constraints from arguments.
"""

from fairlead.compiled import choose_how_it_runs

__all__ = [
    "argument_checks",
    "event_loop",
    "explanation",
    "live_shares",
    "own_rules",
    "policies",
    "random_order",
    "scheduler",
]

choose_how_it_runs()
