"""Pushes from event loops, which one thread accepts, so that no event loop waits."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from rxtemporal.ingress.verdict import Verdict

# so many pushes are accepted before their verdicts are told
MOST_PUSHES = 1_024


class _AsyncPush(NamedTuple):
    """A push that waits: its arguments, and the future of its verdict."""

    arguments: tuple[Any, ...]
    future: asyncio.Future[Verdict]


_Answer = tuple["asyncio.Future[Verdict]", Verdict | None, BaseException | None]


class AsyncPushes:
    """Pushes of any number of event loops, which one thread accepts in their order.

    ``judge`` accepts one push and returns its verdict; ``settle`` makes durable all that have been
    accepted; ``accepts`` tells if there is a run that takes them. The thread takes all pushes that
    wait, settles them once, and tells each event loop its verdicts in one call. It begins with the
    first push, and ends with the run.

    Threads: any event loop may push.
    """

    def __init__(
        self,
        name: str,
        judge: Callable[..., Verdict],
        settle: Callable[[], object],
        accepts: Callable[[], bool],
    ) -> None:
        self._name = name
        self._judge, self._settle, self._accepts = judge, settle, accepts
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[_AsyncPush | None] = SimpleQueue()
        self._is_running = False

    def push(self, *arguments: Any) -> asyncio.Future[Verdict]:
        """Return the future of a verdict; called in an event loop."""
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.put(_AsyncPush(arguments, future))
            if not self._is_running:
                self._is_running = True
                threading.Thread(
                    target=self._run, name=f"rxtemporal pushes into {self._name}", daemon=True
                ).start()
        return future

    def wake(self) -> None:
        """Let the thread see that the run has ended."""
        self._waiting.put(None)

    def _run(self) -> None:
        while pushes := self._take():
            _tell(self._judge_all(pushes))
            if not self._accepts():
                self.wake()

    def _take(self) -> Sequence[_AsyncPush]:
        """Wait for pushes, and return all that wait; none when the thread is to end."""
        while (first := self._waiting.get()) is None:
            with self._lock:
                if self._waiting.empty() and not self._accepts():
                    self._is_running = False
                    return ()
        pushes = [first]
        with contextlib.suppress(Empty):
            while len(pushes) < MOST_PUSHES:
                if (more := self._waiting.get_nowait()) is not None:
                    pushes.append(more)
        return pushes

    def _judge_all(self, pushes: Sequence[_AsyncPush]) -> list[_Answer]:
        answers: list[_Answer] = []
        for arguments, future in pushes:
            if future.cancelled():  # nobody waits for it any more
                continue
            try:
                answers.append((future, self._judge(*arguments), None))
            except BaseException as error:
                answers.append((future, None, error))
        try:
            self._settle()
        except BaseException as error:
            return [(future, None, failed or error) for future, _, failed in answers]
        return answers


def _tell(answers: Sequence[_Answer]) -> None:
    """Give each event loop the answers to its pushes, in one call."""
    loops: defaultdict[asyncio.AbstractEventLoop, list[_Answer]] = defaultdict(list)
    for answer in answers:
        loops[answer[0].get_loop()].append(answer)
    for loop, own in loops.items():
        # a loop that has been closed has nobody who waits
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, own)


def _resolve(answers: Sequence[_Answer]) -> None:
    for future, verdict, error in answers:
        if future.done():  # it was cancelled
            continue
        if error is not None:
            future.set_exception(error)
        elif verdict is not None:
            future.set_result(verdict)
