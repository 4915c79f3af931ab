"""Steps of a process, between which it kills itself."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

# a step, and where its function is looked up
Steps = Mapping[str, tuple[Any, str]]


def list_points(steps: Steps) -> list[str]:
    """Return the points before and after each step."""
    return [f"{when}: {step}" for step in steps for when in ("before", "after")]


def kill_at(point: str, nth: int, steps: Steps) -> None:
    """Kill this process when it comes to a point for the n-th time."""
    when, step = point.split(": ")
    owner, name = steps[step]
    made: Callable[..., Any] = vars(owner)[name]
    count = 0

    def pass_point(here: str) -> None:
        nonlocal count
        count += here == when
        if count == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    @wraps(made)
    def call(*arguments: Any, **named: Any) -> Any:
        pass_point("before")
        result = made(*arguments, **named)
        pass_point("after")
        return result

    @wraps(made)
    async def wait(*arguments: Any, **named: Any) -> Any:
        pass_point("before")
        result = await made(*arguments, **named)
        pass_point("after")
        return result

    setattr(owner, name, wait if inspect.iscoroutinefunction(made) else call)
