"""What is reproduced of Khamse-Ashari et al. 2017."""

from __future__ import annotations

from fairlead.papers.reproduction import Entry, Paper

KHAMSE = Paper(
    "psdsf",
    "Khamse-Ashari, Lambadaris, Kesidis, Urgaonkar and Zhao",
    "Per-server dominant-share fairness (PS-DSF): a multi-resource fair allocation mechanism for "
    "heterogeneous servers",
    "ICC 2017",
)

ENTRIES = (
    Entry(
        "psdsf/figure-1",
        KHAMSE,
        "Figure 1",
        "three users whose bottleneck is the memory, two servers, three mechanisms",
        "PS-DSF gives 3, 3 and 6 tasks, which divides the memory fairly; C-DRFH 2.609, 3.130 and "
        "6.261; TSF 2, 2 and 8",
        "fairlead.papers.psdsf.figure_1:reproduce",
        "at once",
    ),
    Entry(
        "psdsf/table-1",
        KHAMSE,
        "Table I",
        "which properties C-DRFH, TSF and PS-DSF have under placement constraints",
        "TSF and PS-DSF have sharing incentive, all are envy-free, only PS-DSF is bottleneck fair; "
        "it is strategy-proof and Pareto optimal under TDM only, the others are always",
        "fairlead.papers.psdsf.table_1:reproduce",
        "three minutes",
        known_to_differ=True,
    ),
    Entry(
        "psdsf/figure-3",
        KHAMSE,
        "Figure 3",
        "PS-DSF of the example in Fig. 2, four users on two servers",
        "3.6 tasks each for users 1 and 2 on server 1, 8 each for users 3 and 4 on server 2",
        "fairlead.papers.psdsf.figure_3:reproduce",
        "at once",
    ),
    Entry(
        "psdsf/theorem-1",
        KHAMSE,
        "Theorem 1",
        "bottlenecks for everybody everywhere, and the definition, on random problems",
        "an answer is PS-DSF if and only if every user has a bottleneck on every server it may use",
        "fairlead.papers.psdsf.theorem_1:reproduce",
        "ten seconds",
    ),
    Entry(
        "psdsf/lemma-1",
        KHAMSE,
        "Lemma 1",
        "what lies about demands and servers do to others, on random problems",
        "no lie lowers the tasks of others without lowering the liar's own",
        "fairlead.papers.psdsf.lemma_1:reproduce",
        "half a minute",
        known_to_differ=True,
    ),
    Entry(
        "psdsf/figure-4",
        KHAMSE,
        "Figure 4",
        "two users share three wireless channels by given rates",
        "1.5 and 1 Mb/s; a channel each, and half of the one between",
        "fairlead.papers.psdsf.figure_4:reproduce",
        "at once",
    ),
    Entry(
        "psdsf/table-3",
        KHAMSE,
        "Table III",
        "tasks that each user may run alone on each of four classes of servers",
        "80, 340, 82.5 and 55 for user 1, and so on",
        "fairlead.papers.psdsf.table_3:reproduce",
        "at once",
    ),
    Entry(
        "psdsf/table-4",
        KHAMSE,
        "Table IV",
        "tasks of four users on four classes of servers, PS-DSF and TSF",
        "PS-DSF gives class C to user 3 and class D to user 4 entirely; TSF lets user 4 have some "
        "of class C, too",
        "fairlead.papers.psdsf.table_4:reproduce",
        "a second",
    ),
    Entry(
        "psdsf/figure-6",
        KHAMSE,
        "Figure 6",
        "CPU used of two classes of servers while a user is away, servers deciding themselves",
        "PS-DSF uses more than TSF and C-DRFH, and settles quickly after each change",
        "fairlead.papers.psdsf.figure_6:reproduce",
        "two seconds",
    ),
)
