"""Start and use the systems that benchmarks/peers.py measures, each with one node."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import psutil

from local_service import LocalService, begin, cpu_seconds, mebibytes, until, until_ready

CORES = 8  # declared by the node
USER = ("--user", "ana", "--chdir", "/")

PROGRAMS = (
    *("slurmctld", "slurmd", "slurmdbd", "sbatch", "squeue", "sinfo"),
    *("munged", "mariadbd", "mariadb-install-db"),
)
SLURM_CONF = f"""
ClusterName=peers
SlurmctldHost={{host}}(127.0.0.1)
SlurmctldPort={{ctld}}
SlurmdPort={{slurmd}}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={{folder}}/munge.socket
StateSaveLocation={{folder}}/state
SlurmdSpoolDir={{folder}}/spool
SlurmctldPidFile={{folder}}/slurmctld.pid
SlurmdPidFile={{folder}}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0
MaxArraySize=100001
MaxJobCount=100001
SlurmdParameters=config_overrides
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={{dbd}}
AccountingStoragePass={{folder}}/munge.socket
NodeName=a NodeHostname={{host}} NodeAddr=127.0.0.1 CPUs={CORES}
PartitionName=all Nodes=a Default=YES State=UP
"""
DBD_CONF = """
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={dbd}
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={database}
StorageUser=root
StorageLoc=slurm
PidFile={folder}/slurmdbd.pid
"""


class Peer(ABC):
    """A running scheduler with one worker.

    Attributes
    ----------
    scheduler : list of Popen
        Processes that queue, place and record jobs.
    worker : Popen
        Process that starts tasks.
    folder : Path
        Holds all files of the system; commands run in it.
    environment : dict
        Environment of its commands.
    """

    name: ClassVar[str]
    scheduler: list[subprocess.Popen[bytes]]
    worker: subprocess.Popen[bytes]
    folder: Path
    environment: dict[str, str]

    @staticmethod
    @abstractmethod
    def missing() -> str:
        """Return why the system cannot be measured here; empty if it can."""

    @abstractmethod
    def __init__(self, stack: ExitStack, folder: Path) -> None:
        """Start the system, and wait for the worker; the stack stops all processes."""

    @abstractmethod
    def run_many(self, tasks: int) -> None:
        """Run one job with many tasks of `true`, and wait for its end."""

    def cpu(self) -> tuple[float, float]:
        """Return processor seconds of the scheduler, and of the worker with its tasks."""
        return sum(map(cpu_seconds, self.scheduler)), cpu_seconds(self.worker)

    def memory(self) -> tuple[float, ...]:
        """Return MiB of the scheduler, and of the worker without tasks."""
        return sum(map(mebibytes, self.scheduler)), mebibytes(self.worker)


class ByCommand(ABC):
    """A system with a command line."""

    @abstractmethod
    def submit(self, command: list[str]) -> list[str]:
        """Return the words that submit a job."""

    @abstractmethod
    def submit_many(self, jobs: int) -> list[str]:
        """Return the words that submit many jobs of `true` together."""


class ByRequest(ABC):
    """A system with a programming interface, over a connection that stays open."""

    @abstractmethod
    def post(self, command: list[str]) -> None:
        """Submit a job."""


class Fairlead(Peer, ByCommand, ByRequest):
    """A service and a worker of this checkout."""

    name = "fairlead"

    @staticmethod
    def missing() -> str:
        """Return an empty text: fairlead is always there."""
        return ""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        program = [str(Path(sys.executable).with_name("fairlead"))]
        self.service = LocalService(stack, program, folder, CORES, os.environ)
        self.scheduler, self.worker = [self.service.serve], self.service.worker
        self.folder, self.environment = folder, self.service.environment

    def run_many(self, tasks: int) -> None:
        """Post one job, and wait for it by the same connection."""
        self.service.wait(self.service.post(["true"], tasks))

    def submit(self, command: list[str]) -> list[str]:
        """Return the words that submit a job."""
        return [*self.service.program, "submit", *USER, "--", *command]

    def submit_many(self, jobs: int) -> list[str]:
        """Return the words that submit a file of jobs."""
        job = {"command": ["true"], "user": "ana", "directory": "/"}
        path = self.folder / "jobs.json"
        path.write_text(json.dumps({"jobs": [job] * jobs}))
        return [*self.service.program, "submit", "--file", str(path)]

    def post(self, command: list[str]) -> None:
        """Submit a job over HTTP, by the Unix socket."""
        self.service.post(command)


class HyperQueue(Peer, ByRequest):
    """HyperQueue's Python package: server and worker are threads of one process."""

    name = "HyperQueue"

    @staticmethod
    def missing() -> str:
        """Return why the system cannot be measured here; empty if it can."""
        return "" if find_spec("hyperqueue") else "the package hyperqueue is not installed"

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        os.environ["TQDM_DISABLE"] = "1"  # else its client draws a progress bar
        from hyperqueue import Client

        self.folder = folder
        self.environment = {**os.environ, "TMPDIR": str(folder)}  # the worker leaves a folder there
        script = Path(__file__).with_name("hyperqueue_cluster.py")
        words = [sys.executable, str(script), str(folder), str(CORES)]
        self.worker = begin(stack, words, folder, self.environment)
        threads = folder / "threads.json"
        self.server_threads = json.loads(
            until_ready(self.worker, folder, lambda: threads.exists() and threads.read_text())
        )
        self.client = Client(folder)

    def run_many(self, tasks: int) -> None:
        """Run one job, and wait for it; the client polls once a second."""
        self.client.wait_for_jobs([self._submit(["true"], tasks)])

    def post(self, command: list[str]) -> None:
        """Submit a job."""
        self._submit(command, 1)

    def cpu(self) -> tuple[float, float]:
        """Return processor seconds of the server's threads, and of all others with the tasks."""
        threads = psutil.Process(self.worker.pid).threads()
        server = sum(t.user_time + t.system_time for t in threads if t.id in self.server_threads)
        return server, cpu_seconds(self.worker) - server

    def memory(self) -> tuple[float, ...]:
        """Return MiB of the process, which has both the server and the worker."""
        return (mebibytes(self.worker),)

    def _submit(self, command: list[str], tasks: int) -> object:
        from hyperqueue import Job

        job = Job(default_workdir=self.folder)
        for _ in range(tasks):
            job.program(command)
        return self.client.submit(job)


class Slurm(Peer, ByCommand):
    """Slurm with accounting in MariaDB; all daemons run under the account of root."""

    name = "Slurm"

    @staticmethod
    def missing() -> str:
        """Return why the system cannot be measured here; empty if it can."""
        absent = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
        if absent:
            return f"{absent[0]} is not installed"
        return "" if os.geteuid() == 0 else "its daemons need root"

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.folder = folder
        configuration = folder / "slurm.conf"
        self.environment = {**os.environ, "PATH": _path(), "SLURM_CONF": str(configuration)}
        ports = dict(zip(("database", "dbd", "ctld", "slurmd"), _free_ports(4), strict=True))
        for path, text in ((configuration, SLURM_CONF), (folder / "slurmdbd.conf", DBD_CONF)):
            path.write_text(text.format(folder=folder, host=socket.gethostname(), **ports))
            path.chmod(0o600)
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o400)
        munge = [f"--{name}={folder}/munge.{name}" for name in ("socket", "pid-file", "seed-file")]
        munge += [f"--key-file={folder}/key", f"--log-file={folder}/munge.log"]
        munged = self._begin(stack, "munged", "--foreground", *munge)
        until_ready(munged, folder, (folder / "munge.socket").exists)
        self._start_database(stack, ports["database"])
        dbd = self._begin(stack, "slurmdbd", "-D")
        until_ready(dbd, folder, lambda: _listens(ports["dbd"]))
        ctld = self._begin(stack, "slurmctld", "-D")
        until_ready(ctld, folder, lambda: _listens(ports["ctld"]))
        self.scheduler = [ctld, dbd]
        reaper = str(Path(__file__).with_name("reaper.py"))
        self.worker = self._begin(stack, sys.executable, reaper, "slurmd", "-D", "-N", "a")
        until_ready(self.worker, folder, lambda: self._output("sinfo", "-h", "-o", "%T") == "idle")

    def run_many(self, tasks: int) -> None:
        """Submit an array job, and poll twice a second for its end."""
        self._output("sbatch", f"--array=0-{tasks - 1}", "--wrap", "true")
        until(lambda: self._output("squeue", "-h") == "", pause=0.5)

    def submit(self, command: list[str]) -> list[str]:
        """Return the words that submit a job."""
        return ["sbatch", "--wrap", shlex.join(command)]

    def submit_many(self, jobs: int) -> list[str]:
        """Return the words that submit an array job."""
        return ["sbatch", f"--array=0-{jobs - 1}", "--wrap", "true"]

    def memory(self) -> tuple[float, ...]:
        """Return MiB of slurmctld and slurmdbd, and of slurmd."""
        slurmd = min(psutil.Process(self.worker.pid).children(), key=psutil.Process.create_time)
        return sum(map(mebibytes, self.scheduler)), slurmd.memory_info().rss / 2**20

    def _start_database(self, stack: ExitStack, port: int) -> None:
        data = [f"--datadir={self.folder}/database", "--user=root"]
        subprocess.run(
            ["mariadb-install-db", "--no-defaults", "--skip-test-db", *data],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        where = [f"--socket={self.folder}/database.socket", f"--pid-file={self.folder}/mariadb.pid"]
        where += ["--bind-address=127.0.0.1", f"--port={port}", "--skip-grant-tables"]
        database = self._begin(stack, "mariadbd", "--no-defaults", *data, *where)
        until_ready(database, self.folder, lambda: _listens(port))

    def _begin(self, stack: ExitStack, *words: str) -> subprocess.Popen[bytes]:
        return begin(stack, list(words), self.folder, self.environment)

    def _output(self, *words: str) -> str:
        """Run a command, and return its output, which is empty while no daemon answers."""
        return subprocess.run(
            words,
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip()


def _path() -> str:
    """Return PATH with the folders of daemons, which the PATH of ordinary users lacks."""
    return os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin"))


def _free_ports(n: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(n)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
