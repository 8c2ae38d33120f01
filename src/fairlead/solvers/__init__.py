"""Mathematics without the word "fair"."""

from fairlead.compiled import choose_how_it_runs

choose_how_it_runs()
