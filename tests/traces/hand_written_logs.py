"""Hand-written logs for the tests of the readers, and the folder of example logs."""

from __future__ import annotations

from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "logs"
MACHINES = "0\tbig\t2\t80\t1\t8388608\n1\tsmall\t3\t12\t1\t4194304\n"
GIB = 2**30


def log_row(
    job: int,
    spec: str = "1:ppn=1",
    *,
    user: int = 1,
    cores: int = 1,
    memory: int = GIB,
    run: int = 60,
    walltime: int = 3600,
    wait: int = 5,
) -> str:
    """One row of a MetaCentrum log."""
    return (
        f"{job} {1000 + job} {wait} {run} {cores} 1 1024 {cores} {walltime} {memory} 1 {user} "
        f"1 1 -1 1 1 1 {{7}} q_1d {spec}"
    )


def write_log(folder: Path, *rows: str, machines: str = MACHINES) -> Path:
    """A log with its machine file beside it."""
    log = folder / "tiny.swf"
    log.write_text("".join(f"{row}\n" for row in rows))
    (folder / "tiny.swf.machines").write_text(machines)
    return log
