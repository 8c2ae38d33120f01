"""What a policy did to a cluster and its users, in figures: a run log, measured."""

from fairlead.compiled import choose_how_it_runs

choose_how_it_runs()
