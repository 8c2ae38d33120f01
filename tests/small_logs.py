"""Small logs in the formats of real systems, drawn from stated seeds.

``examples/logs`` holds what this writes; ``python tests/small_logs.py FOLDER`` writes it again.
They have the odd records that real logs have: jobs that never ran, fields that are missing,
cancelled jobs, gangs, tasks that are evicted and start again, machines that come and go.
"""

from __future__ import annotations

import gzip
import heapq
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "logs"
METACENTRUM = FOLDER / "metacentrum.swf.gz"
LAB = FOLDER / "lab.swf"
OPENB = FOLDER / "openb"
SLURM = FOLDER / "slurm"
GOOGLE = FOLDER / "google-2011"
JOB_EVENTS = GOOGLE / "job_events"

GIB = 2**30
# Name, nodes, cores and KiB of memory of each, number of the first host.
CLUSTERS = (("zewura", 4, 80, 529426432, 1240), ("zegox", 10, 12, 94035968, 1100))
START = 1356998400  # 2013-01-01


def write_all(folder: Path) -> None:
    """Write all small logs into a folder."""
    for name in ("openb", "slurm", *(f"google-2011/{table}" for table in _GOOGLE_TABLES)):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for path, text in {
        **metacentrum(seed=1),
        "lab.swf": lab(seed=2),
        **openb(seed=3),
        **google(seed=4),
        **slurm(seed=5),
    }.items():
        data = text.encode()
        whole = gzip.compress(data, mtime=0) if path.endswith(".gz") else data
        (folder / path).write_bytes(whole)


class _Hosts:
    """Free cores and memory of hosts over time, and who gives them back when."""

    def __init__(self, cores: np.ndarray, memory: np.ndarray) -> None:
        self.free = np.stack([cores, memory], axis=1).astype(float)
        self.ends: list[tuple[float, int, float, float]] = []

    def start(
        self, at: float, run: float, needs: list[tuple[float, float, np.ndarray]]
    ) -> tuple[float, list[int]]:
        """Place a gang at the first moment from `at` on at which it fits; the moment, the hosts."""
        while True:
            while self.ends and self.ends[0][0] <= at:
                _, host, cores, memory = heapq.heappop(self.ends)
                self.free[host] += (cores, memory)
            before, hosts = self.free.copy(), []
            for cores, memory, allowed in needs:
                room = allowed & (self.free >= (cores, memory)).all(axis=1)
                room[hosts] = False
                if not room.any():
                    break
                hosts.append(int(room.argmax()))
                self.free[hosts[-1]] -= (cores, memory)
            if len(hosts) == len(needs):
                for host, (cores, memory, _) in zip(hosts, needs, strict=True):
                    heapq.heappush(self.ends, (at + run, host, cores, memory))
                return at, hosts
            self.free = before
            at = self.ends[0][0]


def metacentrum(seed: int, jobs: int = 600, users: int = 14) -> dict[str, str]:
    """Write a log as MetaCentrum's, with its file of machines."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(len(CLUSTERS)), [row[1] for row in CLUSTERS])
    names = np.concatenate([np.arange(row[1]) + row[4] for row in CLUSTERS])
    free = _Hosts(
        np.array([row[2] for row in CLUSTERS])[cluster],
        np.array([row[3] / 2**20 for row in CLUSTERS])[cluster],
    )
    everywhere = np.ones(len(cluster), dtype=bool)
    rows, submit, latest = [], 0.0, 0.0
    user_ids = np.sort(rng.choice(1300, users, replace=False))
    for job in range(jobs):
        submit += round(float(rng.exponential(400)))
        user = int(rng.zipf(1.6)) % users
        run = int(rng.lognormal(7.3, 1.5)) + 1
        kind, where, nodes, suffix = rng.random(), everywhere, 1, ""
        cores = int(rng.choice([1, 1, 1, 2, 4, 6, 8, 12]))
        memory = float(rng.choice([0.390625, 1, 2, 4, 10, 30]))
        spec = f"1:ppn={cores}"
        if user % 5 == 1:  # insists on the large nodes
            cores, where = int(rng.choice([16, 32, 64])), cluster == 0
            spec = f"1:ppn={cores}:x86_64:cl_zewura"
            if kind < 0.15:
                suffix, cores, spec = "#excl", 64, "1:ppn=64:x86_64:cl_zewura"
        elif user % 5 == 2 and kind < 0.8:  # insists on the small ones
            where, spec = cluster == 1, f"1:ppn={cores}:cl_zegox"
        elif kind < 0.1:  # a gang
            nodes, cores, where = int(rng.integers(2, 9)), 8, cluster == 1
            spec = f"{nodes}:ppn=8:x86_64:cl_zegox"
        elif kind < 0.13:
            spec += ":^zewura2.cerit-sc.cz"
        elif kind < 0.16:
            cores, spec = 1, "1:ppn=1.5:brno"
        elif kind < 0.18:
            cores, spec = 1, "1"
        elif kind < 0.2:  # nodes of several sizes
            spec = "1:ppn=4+1:ppn=2:nfs4"
        elif kind < 0.22:
            where, spec = cluster == 1, f"1:ppn={cores}:nodecpus12"
        elif kind < 0.4:
            spec += ":x86_64:brno:nfs4"
        sizes = [4, 2] if "+" in spec else [cores] * nodes
        taken = 80 if suffix else None
        needs = [(float(taken or size), memory, where) for size in sizes]
        # The first user is placed first.
        latest, at = free.start(max(latest, submit), run, needs)
        hosts = ",".join(str(names[h]) for h, n in zip(at, sizes, strict=True) for _ in range(n))
        walltime, status = (3600 if run < 3600 else 86400 * (1 + run // 86400)), 1
        if job % 250 == 120:  # removed before it ran, with the log's own nonsense
            run, walltime = -int(START + submit), 0
        rows.append(
            f"{job} {START + submit:.0f} {latest - submit:.0f} {run} {sum(sizes)} 1 1024 "
            f"{sum(sizes)} {walltime} {memory * GIB:.0f} {status} {user_ids[user]} 1 1 -1 1 1 1 "
            f"{{{hosts}}} q_1d {spec}{suffix}"
        )
    machines = "".join(
        f"{k}\t{name}\t{count}\t{cores}\t1\t{memory}\n"
        for k, (name, count, cores, memory, _) in enumerate(CLUSTERS)
    )
    return {
        "metacentrum.swf.gz": "".join(f"{row}\n" for row in rows),
        "metacentrum.swf.machines": machines,
    }


def lab(seed: int, jobs: int = 300, processors: int = 32) -> str:
    """Write a plain log in Standard Workload Format, with its header."""
    rng = np.random.default_rng(seed)
    rows = [
        "; Version: 2.2",
        "; Computer: a made-up lab",
        f"; MaxJobs: {jobs}",
        f"; MaxProcs: {processors}",
        "; UnixStartTime: 1356998400",
        "; Note: drawn by tests/small_logs.py of fairlead; nobody ran this",
        ";",
    ]
    pool, submit, latest = _Hosts(np.array([processors]), np.array([np.inf])), 0, 0.0
    anywhere = np.ones(1, dtype=bool)
    for job in range(1, jobs + 1):
        submit += int(rng.exponential(400))
        run, size = int(rng.lognormal(6.5, 1.4)), int(rng.choice([1, 1, 2, 3, 4, 8, 16]))
        walltime = int(run * rng.uniform(1, 5)) + 60
        memory, used = int(rng.integers(1, 9)) * 2**19, -1
        requested, status, user, odd = size, 1, int(rng.zipf(1.7)) % 9 + 1, rng.random()
        if odd < 0.05:  # cancelled while it waited
            waited = int(rng.exponential(100))
            rows.append(
                f"{job} {submit} {waited} -1 -1 -1 -1 {size} {walltime} -1 5 {user} 1 -1 1 -1 -1 -1"
            )
            continue
        if odd < 0.1:  # failed, or killed while it ran
            status = 0 if odd < 0.08 else 5
        elif odd < 0.14:  # the request is unknown
            requested, memory, used = -1, -1, 2**20
        elif odd < 0.16:
            memory = -1
        elif odd < 0.18:
            user = -1
        elif odd < 0.2:
            run = 0
        latest, _ = pool.start(max(latest, submit), run, [(size, 0.0, anywhere)])
        rows.append(
            f"{job} {submit} {latest - submit:.0f} {run} {size} {run * 0.9:.2f} {used} "
            f"{requested} {walltime} {memory} {status} {user} 1 {1 + user % 3} 1 -1 -1 -1"
        )
    return "".join(f"{row}\n" for row in rows)


def openb(seed: int, jobs: int = 400) -> dict[str, str]:
    """Write tables of nodes and pods as Alibaba's openb trace has them."""
    rng = np.random.default_rng(seed)
    kinds = (("", 32000, 262144, 0, 6), ("T4", 64000, 262144, 2, 8), ("G2", 96000, 393216, 8, 3))
    nodes = ["sn,cpu_milli,memory_mib,gpu,model"]
    for model, cpu, memory, gpus, count in kinds:
        for _ in range(count):
            nodes.append(f"openb-node-{len(nodes) - 1:04},{cpu},{memory},{gpus},{model}")
    pods = [
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
        "deletion_time,scheduled_time"
    ]
    created = 0
    for job in range(jobs):
        created += int(rng.exponential(200))
        cpu, memory = int(rng.integers(1, 13)) * 1000, int(rng.integers(1, 17)) * 1024
        gpus, part, models = int(rng.choice([0, 1, 1, 1, 2, 4])), 0, ""
        if gpus:
            part = int(rng.choice([460, 500, 1000])) if gpus == 1 else 1000
            models = str(rng.choice(["", "", "T4", "G2", "T4|G2", "G2|V100M32"]))
        qos = str(rng.choice(["LS", "LS", "BE", "Burstable", "Guaranteed"]))
        phase, waited = str(rng.choice(["Running", "Succeeded", "Failed"])), rng.exponential(20)
        scheduled = f"{created + int(waited)}"
        deleted = created + int(waited) + int(rng.lognormal(8, 1.2)) + 1
        if job % 9 == 4:  # never scheduled
            phase, scheduled = "Pending", ""
        elif job == 77:
            deleted = int(scheduled)
        elif job == 99:
            memory = 0
        elif job % 7 == 3:
            scheduled += ".0"
        pods.append(
            f"openb-pod-{job:04},{cpu},{memory},{gpus},{part},{models},{qos},{phase},"
            f"{created},{deleted},{scheduled}"
        )
    return {
        "openb/openb_node_list_all_node.csv.gz": "".join(f"{row}\n" for row in nodes),
        "openb/openb_pod_list_gpuspec33.csv.gz": "".join(f"{row}\n" for row in pods),
    }


_GOOGLE_TABLES = (
    "job_events",
    "task_events",
    "task_constraints",
    "machine_events",
    "machine_attributes",
)
# Event types of the published schema.
_SUBMIT, _SCHEDULE, _EVICT, _FAIL, _FINISH, _KILL = range(6)
_UPDATE_RUNNING = 8
_ADD, _REMOVE, _UPDATE = range(3)


def _microseconds(seconds: float) -> int:
    """Return a time on the trace's own clock, which begins at 600 s."""
    return round((600 + seconds) * 1e6)


def _hashed(word: str) -> str:
    """Return a name like the trace's: 32 bytes in base 64."""
    import base64
    import hashlib

    return base64.b64encode(hashlib.sha256(word.encode()).digest()).decode()


def google(seed: int, jobs: int = 120, machines: int = 40, parts: int = 2) -> dict[str, str]:
    """Write all tables that are read of Google's trace of 2011, each in parts."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list[tuple[int, str]]] = {table: [] for table in _GOOGLE_TABLES}

    def add(table: str, time: int, *fields: object) -> None:
        rows[table].append((time, ",".join(map(str, (time, *fields)))))

    for machine in range(1, machines + 1):
        cpu, memory = ((0.5, 0.5), (0.5, 0.2493), (1, 1), (0.5, 0.749))[machine * 7 % 4]
        platform = _hashed(f"platform {machine % 3}")
        add("machine_events", 0, machine, _ADD, platform, cpu, memory)
        add("machine_attributes", 0, machine, _hashed("kernel"), machine % 2, 0)
        if machine % 3:
            add("machine_attributes", 0, machine, _hashed("rack"), machine // 10, 0)
        if machine % 8 == 3:  # away for a while
            away = rng.uniform(2000, 6000)
            add("machine_events", _microseconds(away), machine, _REMOVE, platform, "", "")
            back = _microseconds(away + rng.uniform(500, 2000))
            add("machine_events", back, machine, _ADD, platform, cpu, memory)
        elif machine % 20 == 6:  # loses half of its memory
            moment = _microseconds(rng.uniform(2000, 8000))
            add("machine_events", moment, machine, _UPDATE, platform, cpu, memory / 2)
        elif machine == 10:
            add("machine_events", _microseconds(7000), machine, _REMOVE, platform, cpu, memory)

    submit = 0.0
    for number in range(jobs):
        job, user = 3418309 + 5 * number, _hashed(f"user {int(rng.zipf(1.7)) % 12}")
        kind, name = number % 4, _hashed(f"job {number}")
        submit += rng.exponential(90)
        came = 0 if number < 3 else _microseconds(submit)
        who = ("" if number == 50 else user, kind, name, _hashed(f"logical {number % 9}"))
        missing = 2 if number == 20 else ""
        add("job_events", came, missing, job, _SUBMIT, *who)
        ends = []
        for index in range(int(min(rng.pareto(0.9) + 1, 25))):
            cpu = float(rng.choice([0.00625, 0.0125, 0.0625, 0.125]))
            memory = round(float(rng.lognormal(-4, 0.8)), 6)
            priority, apart = int(rng.choice([0, 1, 4, 9])), int(rng.random() < 0.1)

            def event(
                time: int,
                what: int,
                machine: object = "",
                *,
                job: int = job,
                index: int = index,
                asks: tuple[object, ...] = (user, kind, priority, cpu, memory, 0.0001, apart),
            ) -> None:
                add("task_events", time, "", job, index, machine, what, *asks)

            if index == 0 and number % 6 == 5:
                add("task_constraints", came, job, index, 0, _hashed("kernel"), number % 2)
            if number % 11 == 7:
                add("task_constraints", came, job, index, 1, _hashed("rack"), 2)
            event(came, _SUBMIT)
            moment = max(submit, 0) + float(rng.exponential(5))
            odd = rng.random()
            if odd < 0.03:  # killed while it waited
                event(_microseconds(moment), _KILL)
                ends.append(moment)
                continue
            machine = int(rng.integers(1, machines + 1))
            event(_microseconds(moment), _SCHEDULE, machine)
            length = float(rng.lognormal(5.4, 1.3))
            if odd < 0.15:  # evicted or failed, and started again
                moment += length / 2
                event(_microseconds(moment), _EVICT if odd < 0.1 else _FAIL, machine)
                event(_microseconds(moment + 1), _SUBMIT)
                moment += 1 + float(rng.exponential(5))
                machine = int(rng.integers(1, machines + 1))
                event(_microseconds(moment), _SCHEDULE, machine)
            if odd > 0.97:
                changed = (user, kind, priority, cpu, round(memory / 2, 6), 0.0001, apart)
                event(_microseconds(moment + length / 2), _UPDATE_RUNNING, machine, asks=changed)
            moment += length
            ends.append(moment)
            if number == 60 and index == 0:  # runs beyond the trace
                continue
            event(_microseconds(moment), _KILL if odd > 0.9 else _FINISH, machine)
        add("job_events", max(came, _microseconds(submit)) + 1, "", job, _SCHEDULE, *who)
        add("job_events", _microseconds(max(ends)), "", job, _FINISH, *who)

    files = {}
    for table, found in rows.items():
        found.sort(key=lambda row: row[0])
        count = 1 if table.startswith("machine") else parts
        for part in range(count):
            piece = found[part * len(found) // count : (part + 1) * len(found) // count]
            of = 1 if table.startswith("machine") else 500
            name = f"google-2011/{table}/part-{part:05}-of-{of:05}.csv.gz"
            files[name] = "".join(f"{row}\n" for _, row in piece)
    return files


def slurm(seed: int, jobs: int = 120) -> dict[str, str]:
    """Return the output of ``sacct --parsable2`` and ``scontrol show node`` of six nodes."""
    rng = np.random.default_rng(seed)
    cpu_nodes, gpu_nodes = [f"n{k:02}" for k in range(1, 5)], ["g1", "g2"]
    nodes = []
    for name in (*cpu_nodes, *gpu_nodes):
        gpus = ",gres/gpu=4" if name in gpu_nodes else ""
        partition = "gpu" if gpus else "main"
        nodes.append(
            f"NodeName={name} Arch=x86_64\n   CPUTot=32 RealMemory=131072\n"
            f"   Partitions={partition}\n   CfgTRES=cpu=32,mem=128G,billing=32{gpus}\n"
        )
    fit = np.array([[32.0, 128.0, 4.0 * (name in gpu_nodes)] for name in (*cpu_nodes, *gpu_nodes)])
    hosts, is_gpu = _Hosts(fit[:, 0], fit[:, 1]), fit[:, 2] > 0
    rows, submit, latest = [], 1_735_725_600.0, 0.0  # 2025-01-01T10:00:00
    heading = (
        "JobID|User|Account|Partition|Submit|Eligible|Start|End|State|AllocTRES|ReqTRES|NNodes|"
        "NodeList"
    )
    users = (("ana", "lab"), ("bo", "lab"), ("cy", "ml"), ("dee", "ml"))
    for job in range(1, jobs + 1):
        submit += round(float(rng.exponential(300)))
        user, account = users[int(rng.integers(4))]
        on_gpu, count = account == "ml" and rng.random() < 0.6, 1 if rng.random() < 0.8 else 2
        cores, memory = int(rng.choice([1, 4, 8, 16])), int(rng.choice([2, 8, 32]))
        run, limit = max(1, round(float(rng.exponential(5000)))), int(rng.choice([1, 6, 24, 72]))
        name = f"{job}_{rng.integers(1, 9)}" if rng.random() < 0.1 else str(job)
        partition = "gpu" if on_gpu else "main"
        if rng.random() < 0.05:
            asks = f"cpu={cores * count},mem={memory * count}G,node={count}"
            state = f"CANCELLED by 1000||{asks}|{count}|None assigned"
            came, gone = _slurm_time(submit), _slurm_time(submit + 60)
            times = f"{came}|{came}|None|{gone}"
            rows.append(f"{name}|{user}|{account}|{partition}|{times}|{state}|UNLIMITED")
            continue
        allowed = is_gpu if on_gpu else ~is_gpu
        start, chosen = hosts.start(max(submit, latest), run, [(cores, memory, allowed)] * count)
        latest = start  # in order, so that what is free is known
        gpus = f",gres/gpu={count}" if on_gpu else ""
        tres = f"cpu={cores * count}{gpus},mem={memory * count}G,node={count}"
        states = ["COMPLETED"] * 16 + ["FAILED"] * 2 + ["TIMEOUT", "CANCELLED by 1001"]
        state = states[int(rng.integers(len(states)))]
        names = ",".join((*cpu_nodes, *gpu_nodes)[host] for host in sorted(chosen))
        times = "|".join(map(_slurm_time, (submit, submit, start, start + run)))
        days, hours = divmod(limit, 24)
        text = f"{days}-{hours:02}:00:00" if days else f"{hours:02}:00:00"
        nodes_of_job = f"{count}|{names}"
        head, tail = (
            f"{name}|{user}|{account}|{partition}|{times}|{state}",
            f"{nodes_of_job}|{text}",
        )
        rows.append(f"{head}|{tres}|{tres}|{tail}")
        rows.append(f"{name}.batch||{account}||{times}|{state}|{tres}||{nodes_of_job}|")
    return {
        "slurm/sacct.txt": "\n".join((f"{heading}|Timelimit", *rows)) + "\n",
        "slurm/nodes.txt": "\n".join(nodes),
    }


def _slurm_time(seconds: float) -> str:
    return datetime.fromtimestamp(round(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%S")


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
