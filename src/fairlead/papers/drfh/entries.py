"""What is reproduced of Wang, Liang and Li 2014."""

from __future__ import annotations

from fairlead.papers.reproduction import Entry, Paper

WANG = Paper(
    "drfh",
    "Wang, Liang and Li",
    "Dominant resource fairness in cloud computing systems with heterogeneous servers",
    "INFOCOM 2014",
)

ENTRIES = (
    Entry(
        "drfh/figure-3",
        WANG,
        "Figures 1 to 3",
        "two unlike servers and two users, by DRF server by server and by DRFH",
        "6 tasks each, 5 of them on the better server, when each server is divided by DRF; 10 "
        "each, with a global dominant share of 5/7, under DRFH",
        "fairlead.papers.drfh.figure_3:reproduce",
        "a second",
    ),
    Entry(
        "drfh/table-1",
        WANG,
        "Table I",
        "the servers of one of Google's clusters, from which those of the other figures are drawn",
        "ten classes of servers, 53 % of them with half of the CPU and memory of the largest",
        "fairlead.papers.drfh.table_1:reproduce",
        "a second",
    ),
    Entry(
        "drfh/section-4",
        WANG,
        "Section IV",
        "properties of DRFH, searched for counterexamples",
        "envy-free, Pareto optimal, truthful; DRF on one server, fair on one resource and at one "
        "bottleneck; nobody loses when others leave",
        "fairlead.papers.drfh.section_4:reproduce",
        "half a minute",
    ),
    Entry(
        "drfh/figure-4",
        WANG,
        "Figure 4",
        "shares of three users who come and go, 100 servers, Best-Fit",
        "user 1 alone holds 40 % of the CPU and 62 % of the memory; two users hold 44 % each "
        "of their dominant resources, three hold 26 %; after user 1 has left the others hold "
        "the same",
        "fairlead.papers.drfh.figure_4:reproduce",
        "a second",
    ),
    Entry(
        "drfh/table-2",
        WANG,
        "Table II",
        "use of CPU and memory by the Slots scheduler, for five sizes of slots",
        "14 slots of the largest server give the highest overall use: 43.9 % of the CPU, 28.0 "
        "% of the memory",
        "fairlead.papers.drfh.table_2:reproduce",
        "a minute or two",
    ),
    Entry(
        "drfh/figure-5",
        WANG,
        "Figure 5",
        "use of CPU and memory over the day, Best-Fit, First-Fit and Slots",
        "Best-Fit uses more than First-Fit at all times, and both use much more than Slots",
        "fairlead.papers.drfh.figure_5:reproduce",
        "half a minute",
    ),
    Entry(
        "drfh/figure-6",
        WANG,
        "Figure 6",
        "job completion times under Best-Fit and Slots, and their reduction by size of job",
        "no improvement for small jobs, a significant one for jobs of more tasks; generally "
        "the larger the job, the more",
        "fairlead.papers.drfh.figure_6:reproduce",
        "half a minute",
    ),
    Entry(
        "drfh/figure-7",
        WANG,
        "Figure 7",
        "part of each user's tasks that is completed in a day, Best-Fit and Slots",
        "Best-Fit completes a larger part for almost all users; around 20 % have all tasks "
        "completed under Best-Fit and not under Slots",
        "fairlead.papers.drfh.figure_7:reproduce",
        "half a minute",
        known_to_differ=True,
    ),
    Entry(
        "drfh/figure-8",
        WANG,
        "Figure 8",
        "part of each user's tasks that is completed in a day, sharing and on dedicated clouds",
        "only 2 % of the users see fewer tasks finished when sharing, and those only slightly",
        "fairlead.papers.drfh.figure_8:reproduce",
        "half a minute",
    ),
)
