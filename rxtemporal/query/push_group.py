"""Pushes of several inputs that are made durable at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from rxtemporal.ingress.pushed_inputs import OWN, check_input
from rxtemporal.ingress.verdict import Verdict

if TYPE_CHECKING:
    from rxtemporal.runtime.push_entry import PushEntry


def judge_all(
    entry: PushEntry,
    pushes: Iterable[tuple[str | None, Any]],
    judge: Callable[[PushEntry, Any, str, None], Verdict],
    tell: Callable[[Verdict, str], None],
) -> list[Verdict]:
    """Return the verdicts on the rows of several inputs, once all are durable.

    Raises if one of them is not accepted; the rows of the others may be in the log then.
    """
    named = [(OWN if input is None else check_input(input), item) for input, item in pushes]
    verdicts = [judge(entry, item, name, None) for name, item in named]
    if entry.is_logged:
        entry.settle()
    for (name, _), verdict in zip(named, verdicts, strict=True):
        if verdict.late or verdict.rejected:
            tell(verdict, name)
    return verdicts
