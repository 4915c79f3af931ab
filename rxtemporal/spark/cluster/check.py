"""Check of a session and of each executor: all that a query needs there."""

from __future__ import annotations

import dataclasses
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rxtemporal.spark.cluster import executor_probe
from rxtemporal.spark.cluster.executor_probe import Facts, probe_partition, probe_process
from rxtemporal.spark.jvm import memory
from rxtemporal.spark.jvm.session import STATE_STORE, require_pyspark
from rxtemporal.spark.jvm.session import session as open_or_start
from rxtemporal.spark.query.bucket_state import KEPT_BYTES
from rxtemporal.text.findings import Finding

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_INSTALL = "install rxtemporal[spark] in the Python of the executors, or pack the driver's"
# tasks go to free slots, so a busy executor may get none the first time
_ROUNDS = 3
# seconds by which the clock of an executor may differ
_SKEW = 1.0
# memory of a Python process, as measured; a core has two, one of which keeps states
WORKER_BYTES = 300 << 20
_UNITS = {"": 20, "b": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclasses.dataclass(frozen=True)
class ClusterReport:
    """Findings about a session, and about each executor by its name. ``print`` shows them.

    Findings have a ``name``, ``ok``, a ``detail`` and an ``advice``.

    >>> fine = Finding("state store", True, "RocksDB")
    >>> lost = Finding("polars", False, "not installed", "install it")
    >>> report = ClusterReport((fine,), {"executor 1 on b": (lost,)})
    >>> print(report)
    session
    ok   state store  RocksDB
    executor 1 on b
    BAD  polars       not installed
                      install it
    >>> report.ok
    False
    """

    session: tuple[Finding, ...]
    executors: Mapping[str, tuple[Finding, ...]]

    @property
    def ok(self) -> bool:
        """True if queries can run; advice about memory and speed does not count."""
        return not any(each.bad for each in self)

    def __iter__(self) -> Iterator[Finding]:
        """Iterate over all findings, the session's first."""
        yield from self.session
        for findings in self.executors.values():
            yield from findings

    def __str__(self) -> str:
        """Return the findings as lines, under the name of each executor."""
        parts = {"session": self.session, **self.executors}
        return "\n".join(
            line for name, findings in parts.items() for line in (name, *map(str, findings))
        )


def check(session: SparkSession | None = None) -> ClusterReport:
    """Run a task on each executor, and report what a query would lack there.

    ``session`` is by default the running one; without one a local session is started. The report
    compares each executor with this process: the versions of Python, of this package (and its
    files) and of polars, numba, pyarrow, pandas and protobuf, the clock and the time zone. It tells
    if kernels were compiled there, how long that took and if the code is kept; the memory; and of
    the session the state store, the shuffle partitions and the memory outside Java.

    An executor need not have the package: the task needs the standard library alone. One whose
    Python does not start, or has another minor version than this one, makes the task fail; its
    error is then the report. Executors that got no task are named too. With dynamic allocation
    those that are there at the moment are asked.

    Takes seconds on executors that have not compiled the kernels yet. Changes nothing, except that
    kernels are compiled. ``BindingError`` for Spark Connect and without pyspark.
    """
    require_pyspark()
    running = open_or_start() if session is None else session
    context = running.sparkContext
    own = probe_process()
    answers = _ask_executors(context)
    executors = _list_executors(context)
    known = {each.number for each in (*answers.facts, *answers.errors)}
    silent = [each for each in executors if each.number not in known]
    return ClusterReport(
        tuple(_check_session(running, [each.cores for each in executors])),
        {
            **{str(each): (_report_error(text),) for each, text in answers.errors.items()},
            **{str(each): tuple(_compare(facts, own)) for each, facts in answers.facts.items()},
            **{str(each): (_report_silence(bool(answers.errors)),) for each in silent},
        },
    )


# Tasks --------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, order=True)
class _Executor:
    """An executor; its number is a text, and its host may not be known yet."""

    number: str
    host: str
    cores: int = dataclasses.field(default=0, compare=False)

    def __str__(self) -> str:
        return f"executor {self.number}" + f" on {self.host}" * bool(self.host)


def _list_executors(context: SparkContext) -> list[_Executor]:
    """Return the active executors; the driver is one of them in a local session alone."""
    listed: Any = context._jsc.sc().statusStore().executorList(True)
    all_of_them = [listed.apply(number) for number in range(listed.size())]
    others = [each for each in all_of_them if each.id() != "driver"]
    return [
        _Executor(each.id(), each.hostPort().rpartition(":")[0], each.totalCores())
        for each in others or all_of_them
    ]


class _Answers(NamedTuple):
    """Facts of executors, and the errors of those whose tasks fail."""

    facts: dict[_Executor, Facts]
    errors: dict[_Executor, str]


def _ask_executors(context: SparkContext) -> _Answers:
    """Return the answer of each executor; those of its tasks are the same, except for speed."""
    found: dict[_Executor, Facts] = {}
    for _ in range(_ROUNDS):
        begin = time.time()
        answers, errors = _run_tasks(context)
        if errors:
            return _Answers({}, errors)
        for executor, facts in answers:
            facts["skew"] = _find_skew(facts["clock"], begin, time.time())
            if executor not in found or _is_slower(facts, found[executor]):
                found[executor] = facts
        if {each.number for each in found} >= {each.number for each in _list_executors(context)}:
            break
    return _Answers(dict(sorted(found.items())), {})


def _is_slower(facts: Facts, other: Facts) -> bool:
    """Return True if a process had to compile more than another; the first one tells the cost."""
    return bool(facts["kernels"].get("compiled", 0) > other["kernels"].get("compiled", 0))


def _find_skew(clock: float, begin: float, end: float) -> float:
    """Return by how much a clock is ahead of this process's, or behind it."""
    return min(0.0, clock - begin) + max(0.0, clock - end)


def _run_tasks(
    context: SparkContext,
) -> tuple[list[tuple[_Executor, Facts]], dict[_Executor, str]]:
    """Run a task for each core; return the facts with their executors, or the errors."""
    group = f"rxtemporal check {uuid.uuid4().hex}"
    count = max(2, sum(each.cores for each in _list_executors(context)))
    before = {name: context.getLocalProperty(name) for name in _GROUP}
    context.setJobGroup(group, "rxtemporal.spark.check")
    try:
        rows = context.parallelize(range(count), count)
        with _ByValue():
            facts = dict(rows.mapPartitionsWithIndex(probe_partition).collect())
    except Exception as error:
        failed = {each.executor: each.error for each in _list_tasks(context, group) if each.error}
        return [], failed or {_Executor("?", ""): str(error)}
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)
    ran_on = {each.partition: each.executor for each in _list_tasks(context, group)}
    return [(ran_on[number], each) for number, each in facts.items() if number in ran_on], {}


_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class _ByValue:
    """Functions of these modules are sent as code, and not as names to import."""

    _modules = (executor_probe, memory)

    def __enter__(self) -> None:
        from pyspark import cloudpickle

        for each in self._modules:
            cloudpickle.register_pickle_by_value(each)

    def __exit__(self, *error: object) -> None:
        from pyspark import cloudpickle

        for each in self._modules:
            cloudpickle.unregister_pickle_by_value(each)


class _Task(NamedTuple):
    """An attempt at a task; ``error`` is empty if it did not fail."""

    partition: int
    executor: _Executor
    error: str


def _list_tasks(context: SparkContext, group: str) -> list[_Task]:
    """Return the tasks of the jobs in a group."""
    spark: Any = context._jsc.sc()
    spark.listenerBus().waitUntilEmpty()  # events are stored in a thread of their own
    store, tracker, found = spark.statusStore(), context.statusTracker(), list[_Task]()
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        for stage in [] if info is None else info.stageIds:
            tasks = store.taskList(stage, 0, 1 << 20)
            for task in (tasks.apply(number) for number in range(tasks.size())):
                error, executor = task.errorMessage(), _Executor(task.executorId(), task.host())
                found.append(
                    _Task(task.partitionId(), executor, error.get() if error.isDefined() else "")
                )
    return found


def _report_error(text: str) -> Finding:
    """Return the finding about an executor whose tasks fail: its Python does not work."""
    lines = [line.strip().removeprefix("Caused by: ") for line in text.splitlines() if line.strip()]
    reasons = [
        line for line in lines if re.match(r"(?!org\.apache)[\w.]+(Error|Exception): ", line)
    ]
    return Finding(
        "Python", False, f"a task fails: {[*reasons, *lines, 'no reason was given'][0][:400]}",
        "PYSPARK_PYTHON, or spark.pyspark.python, has to name a Python of the driver's version "
        "that is there on each executor",
    )  # fmt: skip


def _report_silence(failed: bool) -> Finding:
    """Return the finding about an executor that has not answered."""
    if failed:
        return Finding("task", False, "no answer, since a task on another executor fails")
    return Finding(
        "task", False, "this executor got no task, and is not checked",
        "check it again when nothing else runs", optional=True,
    )  # fmt: skip


# Executors ----------------------------------------------------------------------------------------


def _compare(facts: Facts, own: Facts) -> Iterator[Finding]:
    """Yield the findings about an executor; ``own`` are the facts about the driver."""
    yield _compare_python(facts, own)
    yield _compare_package(facts["rxtemporal"], own["rxtemporal"])
    for name, found in facts["packages"].items():
        yield _compare_version(name, found, own["packages"][name])
    if "error" not in facts["rxtemporal"]:
        yield _check_kernels(facts["kernels"])
    yield Finding("memory", True, f"{_format_size(facts['memory'])} of this machine or container")
    yield _check_clock(facts["skew"])
    yield _compare_zone(facts["zone"], own["zone"])


def _compare_python(facts: Facts, own: Facts) -> Finding:
    here, there = own["python"], facts["python"]
    detail = f"{there} at {facts['executable']}"
    if here == there:
        return Finding("Python", True, detail)
    return Finding(
        "Python", False, f"{detail}; the driver has {here}",
        "let PYSPARK_PYTHON name the same version everywhere", optional=True,
    )  # fmt: skip


def _compare_package(there: Facts, here: Facts) -> Finding:
    if "error" in there:
        return Finding("rxtemporal", False, there["error"], _INSTALL)
    detail = f"{there['version']} at {there['folder']}"
    if there["version"] != here["version"]:
        return Finding("rxtemporal", False, f"{detail}; the driver has {here['version']}", _INSTALL)
    if there["digest"] != here["digest"]:
        detail += "; its files are not those of the driver, though the version is"
        return Finding("rxtemporal", False, detail, _INSTALL)
    return Finding("rxtemporal", True, detail)


def _compare_version(name: str, there: str | None, here: str | None) -> Finding:
    if there is None:
        return Finding(name, False, "not installed", _INSTALL)
    if there != here:
        return Finding(name, False, f"{there}; the driver has {here or 'none'}", _INSTALL)
    return Finding(name, True, there)


def _check_kernels(kernels: Facts) -> Finding:
    """Return the finding about machine code: found, compiled and kept, or compiled each time."""
    if "error" in kernels:
        return Finding("kernels", False, f"a query fails: {kernels['error']}", _INSTALL)
    cost = f"{kernels['seconds']:.1f} s of CPU until a first query was done"
    if not kernels["compiled"]:
        return Finding("kernels", True, f"found compiled for {kernels['cpu']}; {cost}")
    detail = f"{kernels['compiled']} compiled for {kernels['cpu']}, {cost}; "
    if not kernels["lasts"]:
        return Finding(
            "kernels", False, f"{detail}each worker compiles again: no folder can be written",
            "set spark.executorEnv.NUMBA_CACHE_DIR to a folder that executors can write, or run "
            "rxtemporal compile before the environment is packed",
        )  # fmt: skip
    return Finding(
        "kernels", False, f"{detail}other workers find them in {kernels['path']}",
        "run rxtemporal compile before the environment is packed", optional=True,
    )  # fmt: skip


def _check_clock(skew: float) -> Finding:
    if abs(skew) <= _SKEW:
        return Finding("clock", True, "as here, within a second")
    detail = f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'behind'} the driver's"
    return Finding("clock", False, detail, "synchronize the clocks (NTP)", optional=True)


def _compare_zone(there: str, here: str) -> Finding:
    if there == here:
        return Finding("time zone", True, there)
    return Finding(
        "time zone", False, f"{there}; the driver has {here}",
        "set TZ=UTC for both; only functions of your own notice it", optional=True,
    )  # fmt: skip


# The session --------------------------------------------------------------------------------------


def _check_session(running: SparkSession, cores: Sequence[int]) -> Iterator[Finding]:
    yield _check_state_store(running)
    yield _check_partitions(running, sum(cores))
    yield _check_zone(running)
    yield from _check_memory(running, cores)


def _check_state_store(running: SparkSession) -> Finding:
    name, wanted = STATE_STORE
    found = str(running.conf.get(name))
    if "RocksDB" in found:
        return Finding("state store", True, "RocksDB")
    return Finding("state store", False, found.rpartition(".")[2], f"set {name} to {wanted}")


def _check_partitions(running: SparkSession, cores: int) -> Finding:
    partitions = int(running.conf.get("spark.sql.shuffle.partitions") or 0)
    detail = f"{partitions} for {cores} cores"
    if cores <= partitions <= 4 * cores:
        return Finding("partitions", True, detail)
    return Finding(
        "partitions", False, detail,
        "set spark.sql.shuffle.partitions to two to four times the cores before a checkpoint "
        "begins: each partition costs a task in each micro-batch", optional=True,
    )  # fmt: skip


def _check_zone(running: SparkSession) -> Finding:
    zone = str(running.conf.get("spark.sql.session.timeZone"))
    advice = "set spark.sql.session.timeZone to UTC, unless timestamps are shown in another zone"
    return Finding("session zone", zone in _UTC, zone, advice, optional=True)


_UTC = {"UTC", "Etc/UTC", "Z", "GMT", "+00:00"}


def _check_memory(running: SparkSession, cores: Iterable[int]) -> Iterator[Finding]:
    """Yield the finding about memory outside Java, where a container limits it."""
    conf = running.sparkContext.getConf()
    if not running.sparkContext.master.startswith(("yarn", "k8s")):
        return
    heap = _read_size(conf.get("spark.executor.memory", "1g"))
    factor = float(conf.get("spark.executor.memoryOverheadFactor", "0.1") or 0.1)
    overhead = conf.get("spark.executor.memoryOverhead", None)
    outside = max(384 << 20, int(heap * factor)) if overhead is None else _read_size(overhead)
    outside += _read_size(conf.get("spark.executor.pyspark.memory", "0"))
    workers = max(cores, default=1)  # for each kind of work
    least = workers * 2 * WORKER_BYTES
    most = least + workers * KEPT_BYTES
    detail = f"{_format_size(outside)} outside Java for the Python workers of {workers} cores"
    advice = (
        f"set spark.executor.memoryOverhead to {_format_size(least)} and more: they need that much "
        f"without states, and up to {_format_size(most)} with them"
    )
    yield Finding("memory", outside >= least, detail, advice)


def _read_size(text: str | None) -> int:
    """Return the bytes of a size as Spark writes it; a number alone is in MiB."""
    found = re.fullmatch(r"(\d+)\s*([bkmgt]?)(?:i?b)?", str(text).strip().lower())
    return 0 if found is None else int(found[1]) << _UNITS[found[2]]


def _format_size(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
