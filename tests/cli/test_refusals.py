"""Unusable input is one line on standard error and exit status 2, and changes no file."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from fairlead.cli.main import run
from fairlead.traces.parquet_trace import write_parquet
from small_problems import ROOT, SMALL, only_line, workload

HUGE = str(10**20)
LAB = ROOT / "examples" / "logs" / "lab.swf"
PROBLEMS = [
    ("divide", "no such command 'divide'"),
    ("allocate", "missing argument"),
    ("allocate small.yaml --foo", "no such option: --foo; did you mean --format? (see fairlead al"),
    ("allocate 'no\nsuch\x1b[31mfile'", "no such\\x1b[31mfile: no such file"),
    ("allocate small.yaml --report no/such/folder/x.html", "there is no folder"),
    ("allocate small.yaml --report small.yaml", "is the problem file itself"),
    ("allocate small.yaml --weights after.yaml --report after.yaml", "is the input itself"),
    ("compare small.yaml --weights after.yaml --report after.yaml", "is the input itself"),
    ("allocate small.yaml --format html", "must be csv or latex, not 'html'"),
    ("allocate small.yaml --format csv --json", "cannot be given with --json"),
    ("compare small.yaml -m tsf --alpha 1", "--alpha: none of these mechanisms"),
    ("compare small.yaml after.yaml small.yaml", "takes one file or two, not 3"),
    ("compare small.yaml after.yaml -m drf -m tsf", "name one mechanism only"),
    ("compare - -", "once only"),
    (f"dynamic small.yaml --lies {HUGE}", "must be "),
    ("fill small.yaml --trials 0", "'--trials'"),
    ("fill small.yaml --trials 5", "only rrr is random"),
    (f"fill small.yaml --select rrr --trials {HUGE}", "must be "),
]
AUDITS = [
    ("audit", "name a problem file, or --kubernetes DUMP.json"),
    ("audit small.yaml --kubernetes x.json", "cannot audit FILE and --kubernetes at once"),
    ("audit --kubernetes x --allocation x.json", "--allocation: needs the problem file"),
    ("audit small.yaml --random 3", "unexpected extra argument"),
    ("audit small.yaml --ray", "no such option: --ray"),
    ("audit small.yaml -m tsf -m drfh", "must be one mechanism"),
    ("audit small.yaml --ignore cpu", "--ignore: is for --kubernetes"),
    ("audit small.yaml --save-witness small.yaml", "is not a folder"),
    ("audit small.yaml --save-witness .", "is not empty"),
    ("audit small.yaml --queues tree.yaml --report tree.yaml", "is the input itself"),
    ("audit small.yaml --allocation tree.yaml --report tree.yaml", "is the input itself"),
    ("audit small.yaml --max-under=20", "must be a fraction such as 20%"),
    (f"audit small.yaml --lies {HUGE}", "must be "),
    ("audit --kubernetes x --weight lab", "--weight: must be KEY=VALUE"),
    ("audit --kubernetes x --weight lab=1_0", "--weight: must be a number"),
    ("audit --kubernetes x --weight a=1 --weight a=2", "--weight: gives 'a' twice"),
    ("audit --random 3 --allocation x.json", "no such option: --allocation"),
    ("audit --random 3 --heterogeneity 9", "invalid value for '--heterogeneity'"),
    (f"audit --random {HUGE}", "must be "),
]
REPLAYS = [
    ("simulate day.parquet", "missing option '--policy'"),
    ("simulate day.parquet -p recorded", "the trace does not record when its tasks started"),
    (
        "simulate day.parquet -p drf/rrr --queues tree.yaml",
        "limits.ana.gpus: the trace has no such",
    ),
    ("simulate day.parquet -p drf/rrr --queues tree.yaml --report tree.yaml", "the input itself"),
    (f"trace audit {LAB} --weights tree.yaml --report tree.yaml", "is the input itself"),
    ("simulate - -p drf/rrr", "-: a trace must be a file or a folder"),
    ("simulate day.parquet -p drf/rrr --warm-up=-3h", "--warm-up: must be seconds, a number"),
    ("simulate day.parquet -p drf/rrr --warm-up=2h", "warm_up: must be at least 0 and before "),
    ("simulate day.parquet -p drf/rrr --warm-up=2013-01-01", "is a date, and the trace has none"),
    ("simulate day.parquet -p drf/rrr --seed -1", "invalid value for '--seed'"),
    ("simulate day.parquet -p drf/rrr --servers 3", "--servers: is for "),
    ("simulate day.parquet -p drf/rrr --machines x", "and this was read as Parquet trace"),
    ("simulate day.parquet -p drf/rrr --reserve 0", "'--reserve'"),
    ("simulate day.parquet -p drf/rrr --preempt some", "--preempt"),
    ("simulate missing.swf -p drf/rrr --runs no/where", "no/where: "),  # before it is read
    (f"simulate {LAB} -p drf/rrr --warm-up 2013-01-01T06:00 --load 0", "must be a positive number"),
    (f"simulate {LAB} -p drf/rrr --warm-up 2023-01-01T06:00", "before the last submission"),
    (f"simulate {LAB} {LAB} -p drf/rrr --warm-up 2013-01-01T06:00", "several traces"),
    (
        f"simulate {LAB} -p drf/rrr --warm-up 2013-01-01T03:00 --from 2013-01-01T05:00",
        "before the trace begins",
    ),
    ("explain day.parquet nobody", "job: there is no job 'nobody' in the trace"),
    (
        "explain day.parquet a -p recorded",
        "recorded: a log does not record why tasks waited; replay",
    ),
    ("trace info -", "-: a trace must be a file or a folder"),
    (f"trace generate -o x.parquet --servers {HUGE}", "must be "),
    (f"trace generate -o x.parquet --servers 5 --users {HUGE}", "must be "),
    (f"trace generate -o x.parquet --servers 5 --jobs {HUGE}", "must be "),
    ("completion tcsh", "bash or zsh"),
]
EXPERIMENTS = [
    ("converge small.yaml --delay x", "--delay: must be a number of seconds, or two such as 0.1"),
    ("converge small.yaml --until 1e12", "sample: 1,000,000,000,000 samples of "),
    ("converge small.yaml --leave ana", "--leave: must be USER:SECONDS, not 'ana'"),
    ("converge small.yaml --join ana:x", "--join: must be USER:SECONDS, not 'ana:x'"),
    ("converge small.yaml --join :3", "--join: must be USER:SECONDS, not ':3'"),
    ("converge small.yaml --join nobody:3", "--join: no user is named 'nobody'"),
    ("reproduce --list --runs x", "--runs: has no effect with --list"),
    ("reproduce --processes 2 --ray", "--processes: is for this machine"),
    ("reproduce drfh/figure-9", "what: there is no 'drfh/figure-9'; did you mean 'drfh/figure-"),
    ("reproduce pigs", "what: there is no 'pigs'; `fairlead reproduce --list` lists the names"),
    ("reproduce drfh/figure-8 --quick --runs /nowhere/x", "/nowhere/x: cannot be made: "),
    ("reproduce drfh/figure-4 --set servers", "must be NAME=NUMBER"),
    ("reproduce drfh/figure-4 --set users=3", "no parameter 'users'; known: servers"),
    ("reproduce drfh/figure-4 --set servers=0", "from 1 to 10,000"),
    ("reproduce drfh/figure-4 --set servers=1e3", "from 1 to 10,000"),
]
BEFORE_ANY_REPLAY = [
    ("--explain nobody", "--explain: there is no user 'nobody'"),
    ("--fair drf", "must be one of drfh, tsf, ps-dsf"),
    ("--report lab.swf", "is the trace itself"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with problems and a trace."""
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    Path("after.yaml").write_text(SMALL.replace("ana, ", "ana, weight: 3, "))
    Path("tree.yaml").write_text("fairlead: 1\nlimits: {ana: {gpus: 1}}\n")
    write_parquet(workload(), Path("day.parquet"))
    return tmp_path


@pytest.mark.parametrize(("command", "said"), [*PROBLEMS, *AUDITS, *REPLAYS, *EXPERIMENTS])
def test_unusable_input_is_one_line_and_exit_2(
    command: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert run(shlex.split(command)) == 2
    assert said in only_line(capsys)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(("options", "said"), BEFORE_ANY_REPLAY)
def test_options_of_the_answer_are_checked_before_any_replay(
    options: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("fairlead.cli._replays.simulate")
    log = Path(shutil.copy(LAB, "lab.swf"))
    assert run(["simulate", str(log), "-p", "drf/best-fit", *options.split()]) == 2
    assert log.read_bytes() == LAB.read_bytes()
    assert said in only_line(capsys)


def test_only_the_schedule_of_the_log_cannot_be_explained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["simulate", str(LAB), "-p", "recorded", "--explain", "bo"]) == 2
    assert "--explain: needs a policy that is replayed" in only_line(capsys)
