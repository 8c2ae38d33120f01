"""The API's requests and answers, as models that the service and its clients check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from fairlead.errors import FairleadError, InputError, ProblemError
from fairlead.model.quantity import read_amount
from fairlead.service.bounds import (
    JOB_ID,
    LONGEST_NAME,
    MOST_JOBS,
    MOST_TASKS,
    MOST_WEIGHT,
    NAME,
    check_weight,
)

MOST_AMOUNT = 1e9  # the largest amount of a resource
MOST_REFERENCES = 10_000  # all entries of `after`, `where` and `bundles` in one request
MOST_JOB_BYTES = 256 * 1024  # total size of the texts and bundles of one job request
BUNDLE_BYTES = 64  # size of a bundle without the names of its resources
MOST_FIELDS = 100  # of an object in a message
MOST_INTEGER = 2**53  # larger integers are rounded by some readers of JSON
MOST_ATTEMPT = 2**31 - 1
MOST_RUNNING = 10**7  # tasks on the servers of one worker


def _amount(unit: str) -> BeforeValidator:
    def read(value: object) -> float:
        try:
            return read_amount(value, unit)[0]
        except ProblemError as error:
            raise ValueError(error.fault) from None

    return BeforeValidator(read, json_schema_input_type=float | str)


def _at_most(count: int) -> BeforeValidator:
    """Bound the number of entries before they are checked, because each may add an error."""

    def check(value: object) -> object:
        if isinstance(value, dict) and len(value) > count:
            raise ValueError(f"has {len(value):,} entries, which is more than {count:,}")
        return value

    return BeforeValidator(check)


Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=NAME)]
LABEL = r"^[^\x00-\x1f\x7f-\x9f]+$"
Label = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=LABEL)]
TEXT = r"^[^\x00]*$"
Text = Annotated[str, Field(max_length=65536, pattern=TEXT)]
Cpu = Annotated[float, _amount(""), Field(ge=0, le=MOST_AMOUNT)]
Memory = Annotated[float, _amount("GiB"), Field(ge=0, le=MOST_AMOUNT)]
OtherAmounts = Annotated[
    dict[Label, Annotated[float, Field(ge=0, le=MOST_AMOUNT)]], Field(max_length=100), _at_most(100)
]
MOST_GPUS = 1000  # of a server: the scheduler keeps a number for each


def _gpus(number: float) -> float:
    if number > 1 and number != int(number):
        raise ValueError("must be a fraction of one GPU, or whole GPUs")
    return int(number) if number == int(number) else number


Gpus = Annotated[float, Field(ge=0, le=100_000, strict=True), AfterValidator(_gpus)]


def _weight(weight: float) -> float:
    try:
        check_weight(weight, "")
    except InputError as fault:
        raise ValueError(fault.fault) from None
    return weight


Weight = Annotated[float, Field(ge=0, lt=MOST_WEIGHT, strict=True), AfterValidator(_weight)]
Priority = Annotated[int, Field(ge=-MOST_TASKS, le=MOST_TASKS, strict=True)]
MOST_CHANGES, MOST_SERVERS = 100, 1000  # changes of a kind, added servers in one what-if
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(ge=0, le=MOST_INTEGER, strict=True)]
Seconds = Annotated[float, Field(gt=0, le=1e9)]
Where = (
    Annotated[dict[Label, Label], Field(max_length=100), _at_most(100)]
    | Annotated[list[Name], Field(fail_fast=True, min_length=1, max_length=10_000)]
)
JobId = Annotated[str, Field(pattern=JOB_ID)]
ALLOWED = {  # the message for a text that does not match a pattern
    NAME: "a name may hold any character but / and control characters",
    LABEL: "a label may hold any character but control characters",
    TEXT: "text may hold any character but NUL",
    JOB_ID: "a job's id is a whole number from 1, as submit prints it",
}
JobState = Literal["pending", "held", "running", "finished", "failed", "cancelled"]
StateOfServer = Literal["ready", "drained", "unreachable", "lost", "gone"]


class DeniedError(FairleadError):
    """The caller may not do this."""


class FullError(FairleadError):
    """The caller reached a limit; the request may be accepted later."""


class MissingError(FairleadError):
    """There is no such job, server or output."""


class StaleSessionError(FairleadError):
    """The session is unknown; the worker has to join again."""


class UnavailableError(FairleadError):
    """The service cannot carry out the request at present; nothing has changed."""


class Strict(BaseModel):
    """A message that refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _count_fields(cls, given: object) -> object:
        """Refuse an object with too many fields, because each unknown one adds an error."""
        if isinstance(given, dict) and len(given) > MOST_FIELDS:
            raise ValueError(f"has {len(given):,} fields, which is more than {MOST_FIELDS:,}")
        return given


CheckpointSignal = Literal["HUP", "INT", "TERM", "USR1", "USR2"]


class Amounts(Strict):
    """The demand of a task; `resources` are amounts of other resources by name.

    ``gpu`` is a whole number of GPUs, or a fraction of one GPU, counted in 1,024ths.
    """

    cpu: Cpu = 1.0
    memory: Memory = 0.0
    gpu: Gpus = 0
    resources: OtherAmounts = {}

    def demand(self) -> dict[str, float]:
        return {"cpu": self.cpu, "memory": self.memory, "gpu": self.gpu, **self.resources}


class Bundle(Amounts):
    """Some tasks of a gang, with the same demand."""

    tasks: Annotated[int, Field(ge=1, le=MOST_TASKS, strict=True)] = 1


class JobRequest(Amounts):
    """A job: tasks with one command and demand. Its texts and bundles take at most 256 KiB.

    A task's environment has ``FAIRLEAD_JOB``, ``FAIRLEAD_INDEX`` (from 0), ``FAIRLEAD_ATTEMPT`` and
    ``FAIRLEAD_TASKS``.

    - ``memory``: in GiB, or a quantity such as ``16Gi``.
    - ``bundles``: make the job a gang of their tasks; its ``tasks`` and amounts are then ignored.
    - ``time_limit``: in seconds.
    - ``after``: jobs that must succeed before this job starts.
    - ``at_most``: the largest number of tasks that run at a time.
    - ``checkpoint_signal``: sent to a preempted task, which then runs again whatever its exit
      status is. Without it, the task gets SIGTERM, and is done if its status is 0.
    - ``notify``: whether the service reports the end of the job to its webhook.
    """

    command: Annotated[list[Text], Field(fail_fast=True, min_length=1, max_length=10_000)]
    user: Name | None = None
    name: Name | None = None
    tasks: Annotated[int, Field(ge=1, le=MOST_TASKS, strict=True)] = 1
    gang: Flag = False
    bundles: Annotated[list[Bundle], Field(fail_fast=True, max_length=1000)] = []
    where: Where | None = None
    priority: Priority = 0
    time_limit: Seconds | None = None
    after: Annotated[list[JobId], Field(fail_fast=True, max_length=1000)] = []
    directory: Text | None = None
    environment: Annotated[dict[Name, Text], Field(max_length=10_000), _at_most(10_000)] = {}
    checkpoint_signal: CheckpointSignal | None = None
    at_most: Annotated[int, Field(ge=1, le=MOST_TASKS, strict=True)] | None = None
    notify: Flag = False

    @property
    def tasks_of_all(self) -> int:
        """Number of its tasks; with bundles, the sum of theirs."""
        return sum(bundle.tasks for bundle in self.bundles) if self.bundles else self.tasks

    @property
    def references(self) -> int:
        """Number of named jobs, bundles and servers, which bounds the cost of looking them up."""
        servers = len(self.where) if isinstance(self.where, list) else 0
        return len(self.after) + len(self.bundles) + servers

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        texts = [*self.command, *self.environment, *self.environment.values(), *self.after]
        texts += [self.directory or "", self.user or "", self.name or "", *_texts_of(self.where)]
        texts += [*self.resources, *(name for b in self.bundles for name in b.resources)]
        size = _bytes_of(texts) + BUNDLE_BYTES * len(self.bundles)
        if size > MOST_JOB_BYTES:
            raise ValueError(
                f"a job takes at most {MOST_JOB_BYTES:,} bytes, including command, environment, "
                f"where, after and bundles, not {size:,}"
            )
        if self.tasks_of_all > MOST_TASKS:
            raise ValueError(f"a job has at most {MOST_TASKS:,} tasks, not {self.tasks_of_all:,}")
        if self.at_most is not None and (self.gang or self.bundles):
            raise ValueError("at_most has no meaning for a gang, whose tasks start together")
        return self


def _texts_of(where: Where | None) -> list[str]:
    return [*where, *where.values()] if isinstance(where, dict) else where or []


def _bytes_of(texts: Iterable[str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


class JobsRequest(Strict):
    """Several jobs, accepted together or not at all.

    The lists `after`, `where` and `bundles` of all jobs have at most 10,000 entries together.
    """

    jobs: Annotated[list[JobRequest], Field(fail_fast=True, min_length=1, max_length=MOST_JOBS)]

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        references = sum(job.references for job in self.jobs)
        if references > MOST_REFERENCES:
            raise ValueError(
                f"lists {references:,} jobs, servers and bundles in after, where and bundles; "
                f"at most {MOST_REFERENCES:,} in one request"
            )
        return self


class JobChange(Strict):
    """Changes of a waiting job; absent fields stay as they are. `anywhere` removes `where`."""

    cpu: Cpu | None = None
    memory: Memory | None = None
    gpu: Gpus | None = None
    where: Where | None = None
    anywhere: Flag = False
    priority: Priority | None = None
    time_limit: Seconds | None = None
    unlimited: Flag = False  # whether to remove the time limit

    @model_validator(mode="after")
    def _check_size(self) -> Self:
        size = _bytes_of(_texts_of(self.where))
        if size > MOST_JOB_BYTES:
            raise ValueError(f"where takes at most {MOST_JOB_BYTES:,} bytes, not {size:,}")
        return self


class SkipRequest(Strict):
    """Indices of a job's tasks to skip; waiting tasks among them count as done."""

    tasks: Annotated[list[TaskIndex], Field(fail_fast=True, max_length=MOST_TASKS)]


class UserRequest(Strict):
    """A user's weight."""

    weight: Weight = 1.0


class JoinServer(Strict):
    """A server, as its worker registers it."""

    name: Name
    cpu: Cpu
    memory: Memory
    gpu: Annotated[int, Field(ge=0, le=MOST_GPUS, strict=True)] = 0
    resources: OtherAmounts = {}
    labels: Annotated[dict[Label, Label], Field(max_length=100), _at_most(100)] = {}


class JoinRequest(Strict):
    """A worker that joins or rejoins: its identity and its servers."""

    identity: Name
    servers: Annotated[list[JoinServer], Field(fail_fast=True, min_length=1, max_length=100_000)]


JobNumber = Annotated[int, Field(ge=1, le=MOST_INTEGER, strict=True)]
TaskIndex = Annotated[int, Field(ge=0, lt=MOST_TASKS, strict=True)]
AttemptNumber = Annotated[int, Field(ge=1, le=MOST_ATTEMPT, strict=True)]
ExitStatus = Annotated[int, Field(ge=0, le=255, strict=True)]
TaskKey = tuple[JobNumber, TaskIndex, AttemptNumber]


class JoinAnswer(BaseModel):
    """The session of a worker that joined.

    `wait` is the longest time in seconds that a sync waits for orders; `tasks` are the running
    tasks, each after the name of its server.
    """

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)

    session: Name
    wait: Annotated[float, Field(ge=0, le=10, strict=True)]
    tasks: Annotated[list[tuple[Name, TaskKey]], Field(max_length=MOST_RUNNING)]


# job, index, attempt, exit status (null if the task has to run again), reason
Ended = tuple[
    JobNumber, TaskIndex, AttemptNumber, ExitStatus | None, Annotated[str, Field(max_length=1000)]
]


class SyncRequest(Strict):
    """A worker's report: the last order seen, and ended tasks with status and reason."""

    session: Name
    seen: Count = 0
    ended: Annotated[list[Ended], Field(fail_fast=True, max_length=100_000)] = []
    wait: Annotated[float, Field(ge=0, le=10)] = 0.0


class LogsPiece(Strict):
    """A worker's answer to a request for output: a piece in base64, from a byte offset."""

    session: Name
    request: Name
    data: Annotated[str, Field(max_length=2**21)] = ""
    offset: Count | None = None
    size: Count = 0
    is_over: Flag = False
    fault: Annotated[str, Field(max_length=1000)] = ""


class Refusal(BaseModel):
    """The reason for a refusal, in one line."""

    detail: str


class WhenView(BaseModel):
    """Forecast of a job's start, as if no other job is submitted. Times are seconds since 1970.

    - `starts`: the start if all tasks use their whole time limits; null if unknown, as without
      limits. Then the job does not start before `not_before`.
    - `expected`: the start if tasks run as long as `rests_on` ended tasks suggest. The job then
      starts on `server`, after a task of the user `freed_by` ended there.
    - `earliest`, `latest`: by similar past forecasts, four of five jobs start in between, including
      delays by later jobs.
    - `never`: whether the job fits on no present server.
    """

    job: str
    state: JobState
    starts: float | None = None
    not_before: float | None = None
    expected: float | None = None
    earliest: float | None = None
    latest: float | None = None
    rests_on: int = 0
    server: str = ""
    freed_by: str = ""
    never: bool = False
    reason: str = ""


class JobView(BaseModel):
    """A job as it is now, or as it ended. Times are seconds since 1970.

    - `server`: the server on which a task last started; `servers`: the number of servers on which
      tasks run now.
    - `devices`: the numbers of the running task's GPUs, if exactly one task runs.
    - `held`: whether no more tasks start; some may still run.
    - `command`: only in the answer for a single job.
    - `shortened`: the fields of an ended job that were dropped because they are long.
    """

    id: str
    user: str
    name: str | None = None
    command: list[str] | None = None
    state: JobState
    held: bool = False
    tasks: int
    attempts: int
    server: str | None
    servers: int = 0
    devices: list[int] = []
    exit_status: int | None
    reason: str
    running: int
    ended_tasks: int
    demand: dict[str, float]
    gang: bool
    where: dict[str, str] | list[str] | None
    priority: int
    time_limit: float | None
    after: list[str]
    submitted: float
    started: float | None
    ended: float | None
    shortened: list[str] = []


class JobsView(BaseModel):
    """Jobs, waiting and running ones first.

    If more jobs wait or run than are listed, `next` is the id after which to continue.
    """

    jobs: list[JobView]
    next: str | None = None


class JobQuery(Strict):
    """A search for jobs by user, by state, and by a text (in name or user, or equal to the id).

    ``live`` is any state before the end, and ``ended`` any state after it.
    """

    user: Name | None = None
    state: Literal[
        "live", "pending", "running", "held", "ended", "finished", "failed", "cancelled"
    ] = "live"
    text: Annotated[str, Field(max_length=LONGEST_NAME)] = ""
    sort: Literal[
        "id", "user", "name", "state", "tasks", "running", "priority", "submitted", "started"
    ] = "id"
    descending: bool = True
    offset: Annotated[int, Field(ge=0, le=MOST_INTEGER)] = 0
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class WeightView(BaseModel):
    """A user's weight."""

    name: str
    weight: float


class ServerState(BaseModel):
    """The state of a server."""

    name: str
    state: StateOfServer


class UserView(BaseModel):
    """A user, and the numbers of its waiting and running tasks."""

    name: str
    weight: float
    queue: str | None = None
    pending: int
    running: int


class UsersView(BaseModel):
    """All users, in order of appearance."""

    users: list[UserView]


class ServerView(BaseModel):
    """A server, its capacity, and the amounts that tasks hold.

    A ``gone`` server was lost while it was drained, and will be drained when it returns. `gpus`
    maps the number of each GPU in use to its used fraction.
    """

    name: str
    state: StateOfServer
    capacity: dict[str, float]
    used: dict[str, float]
    gpus: dict[str, float] = {}
    labels: dict[str, str]
    tasks: int


class ServersView(BaseModel):
    """All servers in order of joining, then the gone ones."""

    servers: list[ServerView]


class ShareView(BaseModel):
    """A user's dominant share and fair share, both divided by its weight unless that is 0.

    `difference` is `share` less `fair_share`. `is_short` means that tasks of the user wait while
    its share is below 99.9 % of the fair one.
    """

    name: str
    share: float
    fair_share: float
    difference: float
    waiting: int
    running: int
    weight: float = 1.0
    is_short: bool = False


class QuotaView(BaseModel):
    """Amounts that are guaranteed to a queue or user, and the amounts that its tasks hold.

    `where` names the labels or servers to which it applies; it is empty for all servers.
    """

    queue: str
    where: str
    quota: dict[str, float]
    held: dict[str, float]


class SharesView(BaseModel):
    """Shares and fair shares of users, the certificate of the fair shares, and the quotas.

    `unmet_quotas` describes quotas that the present servers cannot satisfy together.
    """

    mechanism: str
    users: list[ShareView]
    certificate: dict[str, Any] | None
    quotas: list[QuotaView] = []
    unmet_quotas: str = ""


class WhatIfRequest(Strict):
    """Changes to try on the live state, which are undone.

    `like` maps a server to the number of servers like it to add. `quotas` replace those of a user
    or queue on all servers.
    """

    policy: Label | None = None
    weights: Annotated[dict[Name, Weight], Field(max_length=MOST_CHANGES)] = {}
    like: Annotated[
        dict[Name, Annotated[int, Field(ge=1, le=MOST_SERVERS, strict=True)]],
        Field(max_length=MOST_CHANGES),
    ] = {}
    drain: Annotated[list[Name], Field(max_length=MOST_CHANGES)] = []
    remove: Annotated[list[Name], Field(max_length=MOST_CHANGES)] = []
    quotas: Annotated[dict[Name, OtherAmounts], Field(max_length=MOST_CHANGES)] = {}

    @model_validator(mode="after")
    def _check_added_servers(self) -> Self:
        if sum(self.like.values()) > MOST_SERVERS:
            raise ValueError(f"adds more than {MOST_SERVERS:,} servers")
        return self


class UserShareHours(BaseModel):
    """A user's dominant shares, held and fair, summed over time, in hours of the whole cluster.

    `owed` is `fair` less `held`. `active` is the number of hours in which either was above 0.
    """

    user: str
    active: float
    held: float
    fair: float
    owed: float


class ShareHoursView(BaseModel):
    """Share hours of users since a time, and the present capacity of the cluster."""

    since: float
    cluster: dict[str, float]
    users: list[UserShareHours]


class Usage(BaseModel):
    """Core, GiB and GPU hours of a user's attempts that ended in a month; `tasks` counts them."""

    month: str
    user: str
    tasks: int
    cpu: float
    memory: float
    gpu: float


class History(BaseModel):
    """Usage of ended tasks by month and user."""

    usage: list[Usage]


class LogsView(BaseModel):
    """A piece of output in base64, the size of all output, and whether it is complete.

    `offset` is that of the piece's first byte: later than requested if earlier output was deleted.
    """

    data: str
    offset: int
    size: int
    is_over: bool
