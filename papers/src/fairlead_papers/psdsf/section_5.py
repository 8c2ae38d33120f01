"""The cluster of section V of Khamse-Ashari et al. 2017, and what Tables III and IV print of it."""

from __future__ import annotations

CLASSES = ("A", "B", "C", "D")
USERS = ("user 1", "user 2", "user 3", "user 4")
# Table III: tasks that each user may run alone on each class.
PRINTED_GAMMA = (
    (80.0, 340.0, 82.5, 55.0),
    (40.0, 170.0, 41.25, 41.25),
    (0.0, 0.0, 82.5, 27.5),
    (0.0, 0.0, 27.5, 27.5),
)
# Table IV: tasks of each user on each class.
PRINTED_PS_DSF = (
    (40.0, 170.0, 0.0, 0.0),
    (20.0, 85.0, 0.0, 0.0),
    (0.0, 0.0, 82.5, 0.0),
    (0.0, 0.0, 0.0, 27.5),
)
PRINTED_TSF = (
    (35.0, 170.0, 0.0, 0.0),
    (22.5, 85.0, 0.0, 0.0),
    (0.0, 0.0, 58.33, 0.0),
    (0.0, 0.0, 8.05, 27.5),
)
