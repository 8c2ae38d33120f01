"""The scheduler's core: plain typed Python, compiled by mypyc where there is a C compiler."""

from fairlead.compiled import choose_how_it_runs

choose_how_it_runs()
