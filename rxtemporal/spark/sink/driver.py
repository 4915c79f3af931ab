"""The process that runs Spark for a sink of another process; ``child`` is the other side."""

from __future__ import annotations

import base64
import json
import os
import pickle
import select
import sys
import threading
import traceback
from typing import Any

from rxtemporal.errors import ArgumentError, JavaError
from rxtemporal.spark.sink.runner import Runner
from rxtemporal.spark.sink.worker import LEAVING, Ended, Job


def main(reports: int, parent: int) -> int:
    """Run the job that comes through standard input, until that is closed or ``parent`` is gone."""
    teller = _Teller(reports)
    try:
        job = _job()
    except Exception as error:
        teller.ended(Ended(_not_carried(error), "never"))
        return 1
    runner = Runner(job, teller)
    threading.Thread(target=_follow, args=(runner, parent), daemon=True).start()
    ended = runner.run()
    if ended is not None:
        teller.ended(ended)
    return 0 if ended is None else 1


def _job() -> Job:
    given = sys.stdin.buffer
    job: Job = pickle.loads(given.read(int.from_bytes(given.read(8), "big")))
    return job


def _not_carried(error: Exception) -> ArgumentError:
    told = ArgumentError(
        "the target cannot be made again in the process that runs Spark: "
        f"{type(error).__name__}: {error}. Hint: let it hold only what another process can import, "
        "as a function of an installed module, or functools.partial(psycopg.connect, '...')."
    )
    told.__cause__ = error
    return told


def _follow(runner: Runner, parent: int) -> None:
    """End with the process that started this one: then standard input is closed, or nobody's.

    A micro-batch that runs is waited for a while, and broken off then.
    """
    # not by the input alone: a process forked from that one may hold the other end of it
    while os.getppid() == parent and not select.select([sys.stdin], [], [], 1.0)[0]:
        pass
    leaving = threading.Timer(LEAVING, os._exit, (1,))
    leaving.daemon = True
    leaving.start()
    runner.stop()


class _Teller:
    """A ``Listener`` that tells it to the other process."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._one = threading.Lock()

    def started(self, seconds: float) -> None:
        """Pass it on."""
        self._tell("started", seconds=seconds)

    def noted(self, last: int) -> None:
        """Pass it on."""
        self._tell("noted", last=last)

    def planned(self, number: int, cti: int) -> None:
        """Pass it on."""
        self._tell("planned", number=number, cti=cti)

    def published(self, number: int, last: int, seconds: float) -> None:
        """Pass it on."""
        self._tell("published", number=number, last=last, seconds=seconds)

    def ended(self, ended: Ended) -> None:
        """Tell why this process ends; an error that does not travel goes as its text."""
        error = base64.b64encode(_portable(ended.error)).decode()
        self._tell("ended", error=error, outlook=ended.outlook)

    def _tell(self, what: str, **facts: Any) -> None:
        line = json.dumps({"what": what, **facts}).encode() + b"\n"
        with self._one:
            while line:
                try:
                    line = line[os.write(self._handle, line) :]
                except BrokenPipeError:
                    return  # nobody listens any more; standard input says so, too


def _portable(error: BaseException) -> bytes:
    notes = getattr(error, "__notes__", [])
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:
        told = JavaError(f"{type(error).__name__}: {error}")
        data = pickle.dumps(_with_notes(told, notes))
    else:
        trace = "".join(traceback.format_exception(error)).rstrip()
        data = pickle.dumps(
            _with_notes(error, [*notes, f"in the process that runs Spark:\n{trace}"])
        )
    return data


def _with_notes(error: BaseException, notes: list[str]) -> BaseException:
    error.__notes__ = notes
    return error
