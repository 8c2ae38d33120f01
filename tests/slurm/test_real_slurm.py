"""A real Slurm on this machine, from Debian's packages: its accounting is read as a trace.

`make test-slurm` runs it. Two nodes, the controller, its database and MariaDB run in a folder.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from fairlead.model.workload import Workload
from fairlead.simulation.replay import replay
from fairlead.traces.logs import slurm
from fairlead.traces.readers import SLURM, MachineOptions, read_workload

PROGRAMS = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sacct")
PATIENCE = 60.0
COLUMNS = (
    *("JobID", "User", "Account", "Partition", "Submit", "Start", "End", "State"),
    *("ReqTRES", "AllocTRES", "NNodes", "NodeList", "Timelimit"),
)
DATABASE = """\
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
DbdHost=localhost
DbdPort=16819
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
LogFile={folder}/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
"""
CONTROLLER = """\
ClusterName=test
SlurmctldHost=localhost
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.sock
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort=16819
AccountingStoragePass={folder}/run/munge.sock
ReturnToService=2
MpiDefault=none
NodeName=a1 NodeHostname={host} NodeAddr=localhost Port=16821 CPUs=2 RealMemory=1000
NodeName=a2 NodeHostname={host} NodeAddr=localhost Port=16822 CPUs=2 RealMemory=2000
PartitionName=main Nodes=a1,a2 Default=YES MaxTime=INFINITE State=UP
PartitionName=large Nodes=a2 MaxTime=INFINITE State=UP
"""

Run = Callable[..., str]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run a command of Slurm with the cluster of this module."""
    search = f"/usr/sbin:{os.environ['PATH']}"
    missing = [name for name in PROGRAMS if shutil.which(name, path=search) is None]
    assert not missing, f"apt install slurmctld slurmd slurmdbd mariadb-server munge: no {missing}"
    folder = tmp_path_factory.mktemp("slurm")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    for name in ("run", "state", "spool-a1", "spool-a2", "munge"):
        (folder / name).mkdir()
    (folder / "munge").chmod(0o700)
    (folder / "munge" / "key").write_bytes(os.urandom(64))
    (folder / "munge" / "key").chmod(0o600)
    (folder / "slurmdbd.conf").write_text(DATABASE.format(folder=folder))
    (folder / "slurmdbd.conf").chmod(0o600)
    names = {"folder": folder, "host": socket.gethostname().split(".")[0]}
    (folder / "slurm.conf").write_text(CONTROLLER.format(**names))
    (folder / "cgroup.conf").write_text("CgroupPlugin=autodetect\n")
    sql = str(folder / "run" / "mysql.sock")
    environment = {
        **os.environ, "SLURM_CONF": str(folder / "slurm.conf"), "MYSQL_UNIX_PORT": sql,
        "PATH": search,
    }  # fmt: skip
    servers: list[subprocess.Popen[bytes]] = []

    def call(*words: str, check: bool = True) -> str:
        done = subprocess.run(
            words, env=environment, cwd="/tmp", capture_output=True, text=True, check=False
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def serve(*words: str) -> None:
        log = (folder / f"{words[0]}.txt").open("ab")
        servers.append(subprocess.Popen(words, env=environment, cwd="/tmp", stdout=log, stderr=log))

    try:
        munge = folder / "munge"
        serve("munged", "--foreground", f"--key-file={munge}/key", "--force",
              f"--socket={folder}/run/munge.sock", f"--pid-file={folder}/run/munged.pid",
              f"--log-file={munge}/log", f"--seed-file={munge}/seed")  # fmt: skip
        call("mariadb-install-db", "--no-defaults", f"--datadir={folder}/db",
             "--auth-root-authentication-method=normal", "--skip-test-db")  # fmt: skip
        serve("mariadbd", "--no-defaults", "--user=root", f"--datadir={folder}/db",
              f"--socket={sql}", "--skip-networking")  # fmt: skip
        sends = ("mariadb", "--no-defaults", f"--socket={sql}", "-uroot", "-e")
        until(lambda: call(*sends, "select 1", check=False) != "")
        call(*sends, "create database slurm")
        serve("slurmdbd", "-D")
        until(lambda: "test" in call("sacctmgr", "-i", "add", "cluster", "test", check=False))
        call("sacctmgr", "-i", "add", "account", "lab", check=False)
        serve("slurmctld", "-D", "-c")
        for node in ("a1", "a2"):
            serve("slurmd", "-D", "-N", node)
        until(
            lambda: "idle a[1-2]" in call("sinfo", "-h", "-p", "main", "-o", "%t %N", check=False)
        )
        yield call
    finally:
        for server in reversed(servers):
            server.terminate()
        for server in servers:
            server.wait(PATIENCE)


@pytest.fixture(scope="module")
def files(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The accounting of some jobs, and the nodes in three forms."""

    def submit(*words: str, seconds: int = 1) -> str:
        return run("sbatch", "--parsable", *words, "--wrap", f"sleep {seconds}").strip()

    submit("--mem=100", "--time=5")
    submit("-N2", "--mem=100", "--time=1-00:00:00", "--partition=main", "--job-name=two|nodes")
    submit("--array=1-3", "--mem=200")
    submit("--partition=large", "--mem=1500", "--time=UNLIMITED")
    submit("-N1", "--mem=100", ":", "-N1", "--mem=300")
    submit("--begin=now+1hour")
    run("scancel", submit("--hold"))
    stopped = submit("--mem=100", seconds=90)
    waits = "squeue", "-h", "-t", "pending,running,completing", "-o", "%i %r"
    until(lambda: f"{stopped} None" in run(*waits))
    run("scancel", stopped)
    until(lambda: all("BeginTime" in line for line in run(*waits).splitlines()))
    folder = tmp_path_factory.mktemp("files")
    written = {
        "sacct": run("sacct", "--allusers", "--parsable2", f"--format={','.join(COLUMNS)}"),
        "blocks": run("scontrol", "show", "node"),
        "lines": run("scontrol", "-o", "show", "node"),
        "sinfo": run("sinfo", "-N", "-o", "%N|%c|%m|%G|%P"),
    }
    for name, text in written.items():
        (folder / name).write_text(text)
    return {name: folder / name for name in written}


def read(files: dict[str, Path], nodes: str) -> Workload:
    workload, found = read_workload(files["sacct"], MachineOptions(machines=files[nodes]))
    assert found == SLURM
    return workload


def test_each_list_of_nodes_gives_the_same_trace(files: dict[str, Path]) -> None:
    workload = read(files, "blocks")
    for nodes in ("lines", "sinfo"):
        other = read(files, nodes)
        np.testing.assert_array_equal(other.cluster.capacity, workload.cluster.capacity)
        np.testing.assert_array_equal(other.task_start, workload.task_start)
        np.testing.assert_array_equal(
            other.places[other.set_place], workload.places[workload.set_place]
        )
    assert workload.cluster.resources == ("cpu", "memory")
    assert workload.cluster.capacity.tolist() == [[2, 1000 / 1024], [2, 2000 / 1024]]


def test_jobs_are_what_was_submitted(files: dict[str, Path]) -> None:
    workload = read(files, "blocks")
    assert workload.users == ("root",)
    assert workload.n_jobs == 8  # one, two nodes, three of an array, large, two parts, stopped
    gangs = np.flatnonzero(workload.job_gang)
    assert workload.job_tasks[gangs].tolist() == [2, 2]
    limits = workload.job_limit
    assert limits[0] == 300
    assert limits[gangs[0]] == 86_400
    large = int(np.flatnonzero(workload.shapes[workload.set_shape][:, 1] > 1)[0])
    assert workload.places[workload.set_place[large]].tolist() == [False, True]
    assert np.isinf(limits[workload.set_job[large]])
    assert workload.notes[slurm.STEPS] >= 8
    assert (workload.task_server >= 0).all()


def test_the_recorded_run_fits_its_servers_and_a_replay_runs_all(files: dict[str, Path]) -> None:
    workload = read(files, "blocks")
    log = replay(workload, "drf/best-fit")
    assert len(log.task) == workload.n_tasks
    job = np.repeat(workload.set_job, workload.set_tasks)
    assert (workload.task_start >= workload.job_submit[job]).all()
    shape = np.repeat(workload.set_shape, workload.set_tasks)
    ends = workload.task_start + workload.task_duration
    for now in workload.task_start:
        runs = (workload.task_start <= now) & (now < ends)
        for server in range(2):
            used = workload.shapes[shape[runs & (workload.task_server == server)]].sum(axis=0)
            assert (used <= workload.cluster.capacity[server] + 1e-9).all()


def test_pending_jobs_are_as_large_as_they_will_be(run: Run, files: dict[str, Path]) -> None:
    """Until it starts a job of four cores has one node in ReqTRES, and long arrays are cut."""
    holder = run("sbatch", "--parsable", "-N2", "--exclusive", "--wrap", "sleep 90").strip()
    until(lambda: "R" in run("squeue", "-h", "-j", holder, "-o", "%t"))
    wide = run("sbatch", "--parsable", "-n4", "--mem-per-cpu=10", "--wrap", "true").strip()
    squares = ",".join(str(k * k) for k in range(1, 31))
    listed = ("sbatch", "--parsable", "--mem=100", f"--array={squares}", "--wrap", "true")
    array = run(*listed).strip()
    words = ("sacct", "--allusers", "--parsable2", f"--format={','.join(COLUMNS)}")
    until(lambda: f"{array}_[" in run(*words))
    cut = files["sacct"].with_name("cut.txt")
    cut.write_text(run(*words))
    whole = files["sacct"].with_name("whole.txt")
    whole.write_text(run("env", "SLURM_BITSTR_LEN=0", *words))
    for path, jobs in ((cut, 1), (whole, 30)):
        given = MachineOptions(machines=files["blocks"], unended=0.0)
        workload, _ = read_workload(path, given)
        names = [name.partition("_")[0] for name in workload.job_names.tolist()]
        assert names.count(array) == jobs
        assert (slurm.CUT_ARRAY in workload.notes) == (jobs == 1)
        assert workload.job_tasks[names.index(wide)] == 2
    run("scancel", "--user=root")
    until(lambda: run("squeue", "-h") == "")
