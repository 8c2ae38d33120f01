"""Mathematical algorithms without notions of fairness; each module is named after one."""

from fairlead.compiled import choose_how_it_runs

__all__ = [
    "blas_threads",
    "concave_interior_point",
    "concave_programme",
    "hill_climbing",
    "level_bisection",
    "level_log",
    "level_path",
    "level_raising",
    "leximax",
    "linear_programmes",
    "soft_max_newton",
    "stair_stack",
    "tree_filling",
    "turn_heap",
    "utility_continuation",
    "water_filling",
]

choose_how_it_runs()
