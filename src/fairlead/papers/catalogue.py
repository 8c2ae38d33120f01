"""The tables and figures that are reproduced, by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from fairlead.errors import InputError
from fairlead.papers.reproduction import Entry, Paper, Reproduction
from fairlead.papers.setting import Setting

WANG = Paper(
    "drfh",
    "Wang, Liang and Li",
    "Dominant resource fairness in cloud computing systems with heterogeneous servers",
    "INFOCOM 2014",
)
KHAMSE = Paper(
    "psdsf",
    "Khamse-Ashari, Lambadaris, Kesidis, Urgaonkar and Zhao",
    "Per-server dominant-share fairness (PS-DSF): a multi-resource fair allocation mechanism for "
    "heterogeneous servers",
    "ICC 2017",
)

CATALOGUE: dict[str, Entry] = {
    entry.key: entry
    for entry in (
        Entry(
            "drfh/figure-4",
            WANG,
            "Figure 4",
            "shares of three users who come and go, 100 servers, Best-Fit",
            "user 1 alone holds 40 % of the CPU and 62 % of the memory; two users hold 44 % each "
            "of their dominant resources, three hold 26 %; after user 1 has left the others hold "
            "the same",
            "fairlead.papers.drfh_figure_4:reproduce",
            "a second",
        ),
        Entry(
            "drfh/table-2",
            WANG,
            "Table II",
            "use of CPU and memory by the Slots scheduler, for five sizes of slots",
            "14 slots of the largest server give the highest overall use: 43.9 % of the CPU, 28.0 "
            "% of the memory",
            "fairlead.papers.drfh_table_2:reproduce",
            "a minute or two",
        ),
        Entry(
            "drfh/figure-5",
            WANG,
            "Figure 5",
            "use of CPU and memory over the day, Best-Fit, First-Fit and Slots",
            "Best-Fit uses more than First-Fit at all times, and both use much more than Slots",
            "fairlead.papers.drfh_figure_5:reproduce",
            "half a minute",
        ),
        Entry(
            "drfh/figure-6",
            WANG,
            "Figure 6",
            "job completion times under Best-Fit and Slots, and their reduction by size of job",
            "no improvement for small jobs, a significant one for jobs of more tasks; generally "
            "the larger the job, the more",
            "fairlead.papers.drfh_figure_6:reproduce",
            "half a minute",
        ),
        Entry(
            "drfh/figure-7",
            WANG,
            "Figure 7",
            "part of each user's tasks that is completed in a day, Best-Fit and Slots",
            "Best-Fit completes a larger part for almost all users; around 20 % have all tasks "
            "completed under Best-Fit and not under Slots",
            "fairlead.papers.drfh_figure_7:reproduce",
            "half a minute",
        ),
        Entry(
            "drfh/figure-8",
            WANG,
            "Figure 8",
            "part of each user's tasks that is completed in a day, sharing and on dedicated clouds",
            "only 2 % of the users see fewer tasks finished when sharing, and those only slightly",
            "fairlead.papers.drfh_figure_8:reproduce",
            "half a minute",
        ),
        Entry(
            "psdsf/figure-6",
            KHAMSE,
            "Figure 6",
            "CPU used of two classes of servers while a user is away, servers deciding themselves",
            "PS-DSF uses more than TSF and C-DRFH, and settles quickly after each change",
            "fairlead.papers.psdsf_figure_6:reproduce",
            "two seconds",
        ),
    )
}


def find_entries(names: Sequence[str]) -> list[Entry]:
    """Return the entries of the given names, in the order of the catalogue, each once.

    Parameters
    ----------
    names : sequence of str
        ``drfh/figure-4``, or ``drfh`` for all of a paper.

    Raises
    ------
    InputError
        When there is none of a name.
    """
    wanted: set[str] = set()
    for name in names:
        found = [entry.key for entry in CATALOGUE.values() if name in (entry.key, entry.paper.key)]
        if not found:
            known = ", ".join(CATALOGUE)
            raise InputError(f"there is no {name!r}; there are {known}", "what")
        wanted.update(found)
    return [entry for entry in CATALOGUE.values() if entry.key in wanted]


def reproduce(entry: Entry, setting: Setting) -> Reproduction:
    """Compute a table or figure.

    Parameters
    ----------
    entry : Entry
    setting : Setting
        Shared by several, which then share their runs.
    """
    module, _, function = entry.implementation.partition(":")
    reproduction: Reproduction = getattr(import_module(module), function)(setting)
    return reproduction
