"""Pushes from event loops, which one thread accepts, so that no event loop waits."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, TypeAlias

from rxtemporal.core.log import get_logger
from rxtemporal.ingress.verdict import Verdict

if TYPE_CHECKING:
    from rxtemporal.core.events import PlainRow
    from rxtemporal.run.push_entry import PushEntry

_log = get_logger(__name__)

# so many pushes are accepted before their verdicts are told
MOST_PUSHES = 1_024


# the entry of the run that is to take a push, its item, input and number, the future of its
# verdict, and whether that waits until the rows are durable; and an answer to a push: its verdict
# or its error
AsyncPush: TypeAlias = "tuple[PushEntry, Any, str, Any, asyncio.Future[Verdict], bool]"
_Answer: TypeAlias = tuple[AsyncPush, Verdict | None, BaseException | None]
# of the push's entry, item, input and number; yields now and then, and returns the verdict
_Judge: TypeAlias = "Callable[[PushEntry, Any, str, Any], Generator[None, None, Verdict]]"


class _LongPush:
    """Push whose rows are judged in slices, and the pushes of its input that wait for it."""

    __slots__ = ("behind", "push", "slices")

    def __init__(self, push: AsyncPush, slices: Generator[None, None, Verdict]) -> None:
        self.push, self.slices = push, slices
        self.behind: list[AsyncPush] = []


class AsyncPushes:
    """Pushes of any number of event loops, which one thread accepts, each input's in their order.

    ``read`` returns what is pushed as a point that may only have to wait, or None. ``judge``
    accepts a push in slices and returns its verdict; ``tell`` is called with a verdict and its
    input once that is durable. The thread takes all pushes that wait, makes them durable at once,
    and gives each event loop its verdicts in one call. Between two slices of a long push the others
    have their turn. The thread begins with the first push, and ends when ``accepts`` says that no
    run takes any more.

    Threads: any event loop may push.
    """

    def __init__(
        self,
        name: str,
        read: Callable[[Any, Any], PlainRow | None],
        judge: _Judge,
        tell: Callable[[Verdict, str], None],
        accepts: Callable[[], bool],
    ) -> None:
        self._name = name
        self._read, self._judge, self._tell, self._accepts = read, judge, tell, accepts
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[AsyncPush | None] = SimpleQueue()
        self._is_running = False
        # of the thread alone: long pushes in the order of their turns, and pushes that may go on
        self._long: deque[_LongPush] = deque()
        self._released: list[AsyncPush] = []

    def push(
        self, entry: PushEntry, item: Any, input: str, seq: Any, durable: bool
    ) -> asyncio.Future[Verdict]:
        """Return the future of a verdict; called in an event loop.

        Unless ``durable``, it does not wait for the disk.
        """
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._waiting.put((entry, item, input, seq, future, durable))
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
        while (pushes := self._take()) or self._long:
            self._answer_all(self._judge_all(pushes))
            if self._long:
                self._answer_all(self._go_on(self._long.popleft()))
            if not self._accepts():
                self.wake()

    def _take(self) -> Sequence[AsyncPush]:
        """Return all pushes that wait, at first for one; none if there is other work, or no run."""
        pushes, self._released = self._released, []
        while not pushes and not self._long:
            if (first := self._waiting.get()) is not None:
                pushes.append(first)
                break
            with self._lock:
                if self._waiting.empty() and not self._accepts():
                    self._is_running = False
                    return ()
        with contextlib.suppress(Empty):
            while len(pushes) < MOST_PUSHES:
                if (more := self._waiting.get_nowait()) is not None:
                    pushes.append(more)
        return pushes

    def _judge_all(self, pushes: Sequence[AsyncPush]) -> list[_Answer]:
        # one that has been cancelled has no waiter
        pushes = [push for push in pushes if not push[4].cancelled()]
        points = [self._read_one(push) for push in pushes]
        answers: list[_Answer] = []
        begin = 0
        while begin < len(pushes):
            kept: list[_Answer] = []
            if (long := self._find_long(pushes[begin])) is not None:
                long.behind.append(pushes[begin])
            elif points[begin] is not None:
                kept = self._judge_each(pushes, points, begin)
            if long is None:
                answers += kept or self._begin(pushes[begin])
            begin += len(kept) or 1
        return answers

    def _answer_all(self, answers: list[_Answer]) -> None:
        if hasty := [answer for answer in answers if not answer[0][5]]:
            _answer(hasty)
        _answer(self._settle(answers))

    def _read_one(self, push: AsyncPush) -> PlainRow | None:
        try:
            return self._read(push[1], push[3])
        except BaseException:  # the row's own code; to be told by its judge
            return None

    def _judge_each(
        self, pushes: Sequence[AsyncPush], points: Sequence[PlainRow | None], begin: int
    ) -> list[_Answer]:
        """Accept the next pushes of single rows under one lock; answer as many."""
        try:
            verdicts = pushes[begin][0].judge_each(self._list_rows(pushes, points, begin))
        except BaseException as error:  # the run has ended, and refuses the others
            return [(pushes[begin], None, error)]
        return [(pushes[n], verdict, None) for n, verdict in enumerate(verdicts, begin)]

    def _list_rows(
        self, pushes: Sequence[AsyncPush], points: Sequence[PlainRow | None], begin: int
    ) -> Iterator[tuple[PlainRow, str, bool]]:
        """Yield the next pushes for one entry, up to one that is not a plain point or has to wait.

        Each with its input, and True if it is the only row of a list.
        """
        entry = pushes[begin][0]
        for number in range(begin, len(pushes)):
            point, push = points[number], pushes[number]
            if point is None or push[0] is not entry or self._find_long(push) is not None:
                return
            yield point, push[2], type(push[1]) is list

    def _find_long(self, push: AsyncPush) -> _LongPush | None:
        """Return the long push for which one of the same input has to wait."""
        for long in self._long:
            if push[0] is long.push[0] and push[2] == long.push[2]:
                return long
        return None

    def _begin(self, push: AsyncPush) -> list[_Answer]:
        """Judge the first slice of a push; return the answer, unless there are more slices."""
        return self._go_on(_LongPush(push, self._judge(*push[:4])))

    def _go_on(self, long: _LongPush) -> list[_Answer]:
        push = long.push
        answers: list[_Answer] = []
        try:
            if not push[4].cancelled():
                next(long.slices)
                self._long.append(long)
                return []
        except StopIteration as end:
            answers = [(push, end.value, None)]
        except BaseException as error:
            answers = [(push, None, error)]
        self._released += long.behind
        return answers

    def _settle(self, answers: list[_Answer]) -> list[_Answer]:
        """Make durable what has been accepted, usually by one run."""
        for entry in {push[0] for push, _, _ in answers}:
            try:
                entry.settle()
            except BaseException as error:
                answers = [
                    (push, None, own or error) if push[0] is entry else (push, verdict, own)
                    for push, verdict, own in answers
                ]
        for push, verdict, _ in answers:
            if verdict is not None and (verdict.late or verdict.rejected):
                self._publish(push[2], verdict)
        return answers

    def _publish(self, input: str, verdict: Verdict) -> None:
        try:
            self._tell(verdict, input)
        except BaseException:  # a subscriber has no say in who waits for this thread
            _log.exception("a subscriber failed", source=self._name, input=input)


def _answer(answers: Sequence[_Answer]) -> None:
    """Give each event loop the answers to its pushes, in one call."""
    loops: defaultdict[asyncio.AbstractEventLoop, list[_Answer]] = defaultdict(list)
    for answer in answers:
        loops[answer[0][4].get_loop()].append(answer)
    for loop, own in loops.items():
        # in a loop that has been closed no one waits
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_resolve, own)


def _resolve(answers: Sequence[_Answer]) -> None:
    for (_, _, _, _, future, _), verdict, error in answers:
        if future.done():  # it was cancelled, or did not wait for the disk
            continue
        if error is not None:
            future.set_exception(error)
        elif verdict is not None:
            future.set_result(verdict)
