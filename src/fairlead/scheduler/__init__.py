"""The scheduler of whole tasks: servers, queues and tasks come and go, and policies place tasks.

Plain typed Python, compiled by mypyc where there is a C compiler. `scheduler` has the public class,
`policies` the names of policies, `event_loop` the core of replays, `explanation` and `live_shares`
the answers about waiting tasks and shares, `argument_checks` checks of arguments, and `build`
whether the modules are compiled.
"""

from fairlead.compiled import choose_how_it_runs

__all__ = [
    "argument_checks",
    "build",
    "event_loop",
    "explanation",
    "live_shares",
    "policies",
    "scheduler",
]

choose_how_it_runs()
