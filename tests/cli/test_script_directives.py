"""Directives of a script: options of ``submit``, and options of ``sbatch`` with a counterpart."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.cli.clients.job_script import command_of, prepend_directives, translate_sbatch
from fairlead.cli.clients.submit import JobOptions, submit
from fairlead.cli.main import run
from fairlead.cli.parameters import parameters_of, parse_words
from fairlead.errors import InputError


@pytest.mark.parametrize(
    ("slurms", "ours"),
    [
        ("--job-name=train", "--name train"),
        ("-c4", "--cpu 4"),
        ("--cpus-per-task 4", "--cpu 4"),
        ("--mem=4G", "--memory 4Gi"),
        ("--mem=4000", "--memory 4000Mi"),
        ("--mem 512K", "--memory 512Ki"),
        ("--mem-per-cpu=2G -c 8", "--memory 16Gi --cpu 8"),
        ("--gres=gpu:2", "--gpu 2"),
        ("--gres=gpu", "--gpu 1"),
        ("--time=0", "--time UNLIMITED"),
        ("-G 1", "--gpu 1"),
        ("-t 90", "--time 90m"),
        ("--time=1-12", "--time 1-12"),
        ("--array=0-9", "--count 10"),
        ("-a 0-9%4", "--count 10 --at-most 4"),
        ("--dependency=afterok:17:18", "--after 17 --after 18"),
        ("-D /data", "--chdir /data"),
        ("-w node1,node2", "--where node1 --where node2"),
        ("--export=NONE", "--clean-env"),
        ("--export=ALL -n 1 --nodes=1", ""),
    ],
)
def test_options_of_slurm_have_counterparts(slurms: str, ours: str) -> None:
    translated, others = translate_sbatch(slurms.split())
    assert translated == ours.split()
    assert others == []
    assert parse_words(submit, [*translated, "--", "true"])


@pytest.mark.parametrize(
    ("slurms", "ours", "named"),
    [
        ("--gres=gpu:a100", "--gpu 1", "a100 in --gres=gpu:a100"),
        ("-G a100:4", "--gpu 4", "a100 in --gpus=a100:4"),
        ("--partition=gpu", "", "--partition"),
        ("-p gpu", "", "-p"),
        ("--array=1-10", "", "--array=1-10"),
        ("--array=0-8:2", "", "--array=0-8:2"),
        ("--mem=0", "", "--mem=0"),
        ("--nodes=2", "", "--nodes=2"),
        ("--dependency=singleton", "", "--dependency=singleton"),
        ("--gres=gpu:1,license:2", "", "--gres=gpu:1,license:2"),
        ("-w node[1-4]", "", "--nodelist=node[1-4]"),
        ("--exclusive", "", "--exclusive"),
        ("--gres=license:3", "", "--gres=license:3"),
        ("stray", "", "stray"),
    ],
)
def test_options_without_a_counterpart_are_named(slurms: str, ours: str, named: str) -> None:
    assert translate_sbatch(slurms.split()) == (ours.split(), [named])


def script(folder: Path, *lines: str) -> Path:
    path = folder / "job.sh"
    path.write_text("\n".join(lines) + "\n")
    return path


def options_of(path: Path, *words: str) -> JobOptions:
    arguments = parse_words(submit, prepend_directives(words, path, parameters_of(submit)))
    assert arguments is not None
    options = arguments["options"]
    assert isinstance(options, JobOptions)
    return options


def test_ours_come_after_slurms_and_typed_ones_last(tmp_path: Path) -> None:
    lines = ("#!/bin/sh", "#FAIRLEAD --cpu 3 --gpu 1", "#SBATCH -c 2 --mem=2G", "# --cpu 8", "true")
    path = script(tmp_path, *lines, "#FAIRLEAD --cpu 9")
    options = options_of(path, "--gpu", "2")
    assert options == JobOptions(cpu="3", gpu=2, memory="2Gi", name="job.sh")


def test_quotes_and_comments_are_read_as_a_shell_would(tmp_path: Path) -> None:
    path = script(tmp_path, "#FAIRLEAD --env 'NOTE=two words'  # a comment")
    assert options_of(path).env == ["NOTE=two words"]


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("#FAIRLEAD --cpus 3", "no such option: --cpus"),
        ("#FAIRLEAD --gpu two", "invalid value for '--gpu' / '-g': must be a number"),
        ("#FAIRLEAD python train.py", "takes options, not 'python'"),
        ("#FAIRLEAD --name 'open", "no closing quotation"),
        ("#FAIRLEAD --script other.sh", "takes options of a job"),
    ],
)
def test_a_wrong_directive_is_named_with_its_line(
    tmp_path: Path, line: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(tmp_path, "#!/bin/sh", "", line)
    assert run(["submit", "--script", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"fairlead: {path}: line 3: {fault}")
    assert err.count("\n") == 1


def test_a_script_runs_by_its_first_line(tmp_path: Path) -> None:
    path = script(tmp_path, "#!/usr/bin/env -S python3 -u", "print(1)")
    assert command_of(path) == ["/usr/bin/env", "-S python3 -u", str(path)]
    assert command_of(script(tmp_path, "#!/bin/bash -e ", "true"))[:2] == ["/bin/bash", "-e"]
    assert command_of(script(tmp_path, "echo 1")) == ["/bin/sh", str(path)]
    with pytest.raises(InputError, match="No such file"):
        command_of(tmp_path / "absent.sh")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"#!/bin/sh\n#SBATCH --array=1-10\n", "--array=1-10 has no counterpart here; indices"),
        (b"#!/bin/sh\n#SBATCH --mem=bad\ntrue\n", "--mem=bad has no counterpart here; write"),
        (b"#!/bin/sh\n#SBATCH --gres=gpu:x:y\ntrue\n", "--gres=gpu:x:y has no counterpart"),
        (b"#!/bin/sh\n#SBATCH --gpus=two\ntrue\n", "--gpus=two has no counterpart"),
        (b"#!/bin/sh\n#SBATCH --mem=16 GB\ntrue\n", "takes options, not 'GB'"),
        (b"\n", "must be a text file"),
        (b"#SBATCH\t--dependency=afterany:3\n", "--dependency=afterany:3 has no counterpart"),
        (b"#!/bin/sh\r\ntrue\r\n", "has Windows line ends"),
        (b"\x7fELF\0\0", "must be a text file"),
    ],
)
def test_a_script_that_would_do_other_work_is_refused(
    tmp_path: Path, content: bytes, fault: str
) -> None:
    path = tmp_path / "job.sh"
    path.write_bytes(content)
    with pytest.raises(InputError, match=fault):
        prepend_directives([], path, parameters_of(submit))
