"""Pushes from event loops, which one thread accepts, so that no event loop waits."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

from rxtemporal.core.log import get_logger
from rxtemporal.ingress.verdict import Verdict

if TYPE_CHECKING:
    from rxtemporal.runtime.push_entry import PushEntry

_log = get_logger(__name__)

# so many pushes are accepted before their verdicts are told
MOST_PUSHES = 1_024


class AsyncPush(NamedTuple):
    """A push that waits: the entry of the run that is to take it, and the future of its verdict."""

    entry: PushEntry
    item: Any
    input: str
    seq: Any
    future: asyncio.Future[Verdict]


class _Answer(NamedTuple):
    push: AsyncPush
    verdict: Verdict | None
    error: BaseException | None


class AsyncPushes:
    """Pushes of any number of event loops, which one thread accepts in their order.

    ``judge`` accepts a push and returns its verdict, and ``tell`` is called with a push and its
    verdict once that is durable. The thread takes all pushes that wait, makes them durable at once,
    and gives each event loop its verdicts in one call. It begins with the first push, and ends
    when ``accepts`` says that no run takes any more.

    Threads: any event loop may push.
    """

    def __init__(
        self,
        name: str,
        judge: Callable[[PushEntry, Any, str, Any], Verdict],
        tell: Callable[[Verdict, str], None],
        accepts: Callable[[], bool],
    ) -> None:
        self._name = name
        self._judge, self._tell, self._accepts = judge, tell, accepts
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[AsyncPush | None] = SimpleQueue()
        self._is_running = False

    def push(self, entry: PushEntry, item: Any, input: str, seq: Any) -> asyncio.Future[Verdict]:
        """Return the future of a verdict; called in an event loop."""
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.put(AsyncPush(entry, item, input, seq, future))
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
            _answer(self._judge_all(pushes))
            if not self._accepts():
                self.wake()

    def _take(self) -> Sequence[AsyncPush]:
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

    def _judge_all(self, pushes: Sequence[AsyncPush]) -> list[_Answer]:
        answers: list[_Answer] = []
        # nobody waits for one that has been cancelled
        for push in (each for each in pushes if not each.future.cancelled()):
            try:
                verdict = self._judge(push.entry, push.item, push.input, push.seq)
                answers.append(_Answer(push, verdict, None))
            except BaseException as error:
                answers.append(_Answer(push, None, error))
        return self._settle(answers)

    def _settle(self, answers: list[_Answer]) -> list[_Answer]:
        """Make durable what has been accepted, usually by one run."""
        for entry in {each.push.entry for each in answers}:
            try:
                entry.settle()
            except BaseException as error:
                answers = [
                    _Answer(each.push, None, each.error or error)
                    if each.push.entry is entry
                    else each
                    for each in answers
                ]
        for push, verdict, _ in answers:
            if verdict is not None:
                self._publish(push, verdict)
        return answers

    def _publish(self, push: AsyncPush, verdict: Verdict) -> None:
        try:
            self._tell(verdict, push.input)
        except BaseException:  # a subscriber has no say in who waits for this thread
            _log.exception("a subscriber failed", source=self._name, input=push.input)


def _answer(answers: Sequence[_Answer]) -> None:
    """Give each event loop the answers to its pushes, in one call."""
    loops: defaultdict[asyncio.AbstractEventLoop, list[_Answer]] = defaultdict(list)
    for answer in answers:
        loops[answer.push.future.get_loop()].append(answer)
    for loop, own in loops.items():
        # a loop that has been closed has nobody who waits
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, own)


def _resolve(answers: Sequence[_Answer]) -> None:
    for push, verdict, error in answers:
        future = push.future
        if future.done():  # it was cancelled
            continue
        if error is not None:
            future.set_exception(error)
        elif verdict is not None:
            future.set_result(verdict)
