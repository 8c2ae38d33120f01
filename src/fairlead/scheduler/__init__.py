"""The scheduler of whole tasks: it places the tasks of queues on servers by a policy.

Typed Python; mypyc compiles most modules where there is a C compiler.

- `scheduler`: the public class.
- `policies`: policies by name; `random_order`: random orders of servers.
- `event_loop`: the loop of replays; `own_rules`: user-defined policies, for replays only.
- `explanation`: why a task waits; `live_shares`: the shares of queues and their fair shares.
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
