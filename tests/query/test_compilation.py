"""Compilation of kernels before the first row: all that a run needs, and no code of the user's."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from child_process import environment
from law_streams import CASES, some_cases
from physical import SCHEMA, planned

import rxtemporal as rxt
from rxtemporal import agg
from rxtemporal.query import compilation
from rxtemporal.query.compilation import compile_plan


@pytest.fixture(autouse=True)
def _nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what other tests have compiled."""
    monkeypatch.setattr(compilation, "_compiled", set())


def compile_all(*streams: rxt.Streamable) -> None:
    """Compile the kernels of queries."""
    for _ in compile_plan([node for stream in streams for node in stream._node.list_nodes()]):
        pass


@some_cases
def test_rows_that_are_made_up_pass_each_operator(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """None is compiled in part because it cannot take them."""
    caplog.set_level(logging.DEBUG, "rxtemporal.query.compilation")
    case = CASES[name]
    compile_all(planned(case.query, case.inputs))
    assert [each.getMessage() for each in caplog.records if "in part" in each.getMessage()] == []


def test_no_code_of_the_user_is_called() -> None:
    """A function and an aggregate of the user's might do more than compute."""
    called: list[Any] = []

    class Count(agg.UserDefinedAggregate):  # type: ignore[misc]
        def compute(self, values: Any) -> int:
            called.append(values)
            return len(values)

    def seen(value: Any) -> Any:
        called.append(value)
        return True

    rows = rxt.PushSource("readings", schema=SCHEMA).stream
    compile_all(
        rows.where(seen),
        rows.select(lambda row: {"k": seen(row)}, schema={"k": bool}),
        rows.tumbling_window(10).aggregate(n=Count("x")),
        rows.group_by("k").tumbling_window(10).aggregate(n=agg.count()),
    )
    assert called == []


COLD = """
    import asyncio, json
    from datetime import UTC, datetime, timedelta
    import httpx
    from numba.core import event
    import rxtemporal as rxt
    from rxtemporal import agg
    from rxtemporal.serve import app

    source = rxt.PushSource("readings", schema={"device": str, "temp": float}, delay=timedelta(0))
    devices = source.stream.group_by("device")
    house = rxt.Application("house")
    minutes = devices.tumbling_window("1m").aggregate(
        n=agg.count(), mean=agg.avg("temp"), spread=agg.std("temp")
    )
    house.query("minutes", minutes)
    house.query("means", devices.tumbling_window("1m").aggregate(mean=agg.avg("temp")))
    alive = devices.snapshot_window().aggregate(mean=agg.avg("temp"), spread=agg.std("temp"))
    house.query("alive", alive)
    house.query("hops", devices.hopping_window("5m", "1m").aggregate(most=agg.max("temp")))
    compiled = []

    class Listener(event.Listener):
        def on_start(self, event):
            compiled.append(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event):
            pass

    async def main():
        served = app(house)
        async with served.lifespan():
            transport = httpx.ASGITransport(served)
            async with httpx.AsyncClient(transport=transport, base_url="http://house") as client:
                before = (await client.get("/readyz")).status_code
                while (await client.get("/readyz")).status_code != 200:
                    await asyncio.sleep(0.05)
                now = datetime.now(UTC) - timedelta(hours=1)
                with event.install_listener("numba:compile", Listener()):
                    for second in [*range(0, 600, 7), 5, 400, 700]:
                        time = (now + timedelta(seconds=second)).isoformat()
                        temp = (20.5, 1e100, 1e-100)[second % 2 + (second > 300)]
                        row = {"device": f"d{second % 3}", "time": time, "temp": temp}
                        await client.post("/streams/readings", json=row)
                        await client.post("/streams/readings", json=[row] * 50)
        print(json.dumps([before, compiled]))

    asyncio.run(main())
"""


# the code beside the source is not looked for
EMPTY = "UserProvidedCacheLocator"


def run_cold(program: str, cache: Path) -> Any:
    """Run a program in a process that finds no compiled code; return what it prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environment(NUMBA_CACHE_DIR=str(cache), NUMBA_CACHE_LOCATOR_CLASSES=EMPTY),
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.full
def test_a_service_that_is_ready_compiles_nothing_more(tmp_path: Path) -> None:
    """With an empty cache it is not ready at first; afterwards no push waits for a kernel."""
    assert run_cold(COLD, tmp_path) == [503, []]


MOVED = """
    import json
    import numpy as np
    import polars as pl
    from numba.core import event
    import rxtemporal as rxt
    from rxtemporal.engine.kernels.rows import FEW, gather
    from rxtemporal.engine.key_store import follow
    from rxtemporal.query.compilation import compile_plan

    fields = {"device": str, "level": pl.Int16, "temp": pl.Float32}
    stream = rxt.PushSource("readings", schema=fields).stream
    for _ in compile_plan(stream.join(stream, on="device", suffix="_other")._node.list_nodes()):
        pass
    compiled = []

    class Listener(event.Listener):
        def on_start(self, event):
            compiled.append(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event):
            pass

    with event.install_listener("numba:compile", Listener()):
        for dtype in (np.int64, np.bool_, np.int16, np.float32):
            gather(np.zeros(FEW, dtype), np.arange(FEW))
        follow(np.arange(FEW), np.arange(FEW))
    print(json.dumps(compiled))
"""


@pytest.mark.full
def test_rows_that_a_store_holds_are_moved_without_compiling(tmp_path: Path) -> None:
    """Those are many at once: fields of each size, times, flags, and the numbers of rows."""
    assert run_cold(MOVED, tmp_path) == []
