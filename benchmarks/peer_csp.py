"""The workloads in csp: a child process of ``live.py``, which needs csp and numpy alone.

It reads requests from standard input, a line of JSON each, and answers on standard output. The
clock runs while the graph runs, not while it is built. W2 to W5 are written with csp's own nodes,
which are compiled; a Python node receives what is pushed.
"""

import json
import os
import sys
import time
import traceback
from datetime import UTC, datetime, timedelta

import csp
import numpy as np
from csp import stats, ts
from csp.impl.pushadapter import PushInputAdapter
from csp.impl.wiring import py_push_adapter_def

# workloads begin at tick 0; csp's times are nanoseconds, windows are open at their start
ORIGIN = datetime(2020, 1, 1)
ZERO = np.datetime64(ORIGIN, "ns").astype(np.int64)
TICK = timedelta(microseconds=1)
OVERLAP = 5
THRESHOLD = 0.5


def run(graph, until):
    """Run a graph from just before the first tick; return the seconds and its outputs."""
    built = csp.build_graph(graph)
    begun = time.perf_counter()
    outputs = csp.run(
        built,
        starttime=ORIGIN - TICK,
        endtime=ORIGIN + timedelta(microseconds=int(until)),
        output_numpy=True,
    )
    return time.perf_counter() - begun, outputs


def times(ticks):
    """Return ticks as csp's times."""
    return (ticks * 1_000 + ZERO).astype("datetime64[ns]")


def distinct_times(ticks):
    """Return ticks as csp's times, a nanosecond apart where they are equal."""
    first = np.flatnonzero(np.diff(ticks, prepend=ticks[0] - 1))
    rank = np.arange(len(ticks)) - np.repeat(first, np.diff(first, append=len(ticks)))
    return (ticks * 1_000 + rank + ZERO).astype("datetime64[ns]")


def ticks(times_):
    """Return csp's times as ticks."""
    return (np.asarray(times_, "datetime64[ns]").astype(np.int64) - ZERO) // 1_000


def by_key(data, at, name):
    """Return a stream of one column, split by key."""
    values = csp.curve(float, (at, data[name]))
    keys = csp.curve(int, (at, data["key"].astype(np.int64)))
    return csp.demultiplex(values, keys, list(range(int(data["keys"]))))


def windows(data, each, names):
    """Run statistics of each key and window; ``each`` gives those of a stream and a trigger."""
    keys, period = range(int(data["keys"])), int(data["window"])

    def graph():
        values = by_key(data, times(data["start"]), "value")
        trigger = csp.timer(timedelta(microseconds=period))
        for key in keys:
            for name, value in zip(names, each(values[key], trigger, period), strict=True):
                csp.add_graph_output(f"{name}{key}", value)

    last = int(data["start"][-1]) + (OVERLAP + 1) * period
    seconds, found = run(csp.graph(graph), last)
    columns = {"start": [], "key": [], **{name: [] for name in names}}
    for key in keys:
        at, mean = found[f"avg{key}"]
        full = ~np.isnan(mean)
        columns["start"].append(ticks(at)[full] + 1)
        columns["key"].append(np.full(full.sum(), key))
        for name in names:
            columns[name].append(found[f"{name}{key}"][1][full])
    return seconds, {name: np.concatenate(values) for name, values in columns.items()}


def w2(data):
    """Count and mean of tumbling windows."""

    def each(value, trigger, period):
        given = {
            "interval": timedelta(microseconds=period),
            "trigger": trigger,
            "min_window": timedelta(0),
        }
        return stats.mean(value, **given), stats.count(value, **given)

    seconds, found = windows(data, each, ("avg", "n"))
    return seconds, {**found, "start": found["start"] - data["window"]}


def w3(data):
    """Mean of hopping windows."""

    def each(value, trigger, period):
        interval = timedelta(microseconds=OVERLAP * period)
        return (stats.mean(value, interval=interval, trigger=trigger, min_window=timedelta(0)),)

    seconds, found = windows(data, each, ("avg",))
    return seconds, {**found, "start": found["start"] - OVERLAP * data["window"]}


def w4(data):
    """Join of points with intervals: each interval is a value, and nan from its end on."""
    edges = np.concatenate([data["valid_start"], data["valid_end"]])
    begins = np.repeat([1, 0], len(data["attr"]))
    # an end comes before a start at the same tick
    order = np.lexsort((begins, edges))
    valid = {
        "key": np.concatenate([data["valid_key"]] * 2)[order],
        "attr": np.concatenate([data["attr"], np.full(len(data["attr"]), np.nan)])[order],
        "keys": data["keys"],
    }
    keys = range(int(data["keys"]))

    def graph():
        points = by_key(data, times(data["start"]), "value")
        attrs = by_key(valid, distinct_times(edges[order]), "attr")
        for key in keys:
            attr = csp.sample(points[key], attrs[key])
            alive = attr == attr
            csp.add_graph_output(f"attr{key}", csp.filter(alive, attr))
            csp.add_graph_output(f"value{key}", csp.filter(alive, csp.sample(attr, points[key])))

    seconds, found = run(csp.graph(graph), data["start"][-1] + 1)
    columns = {
        "start": [ticks(found[f"attr{key}"][0]) for key in keys],
        "key": [np.full(len(found[f"attr{key}"][0]), key) for key in keys],
        "attr": [found[f"attr{key}"][1] for key in keys],
        "value": [found[f"value{key}"][1] for key in keys],
    }
    return seconds, {name: np.concatenate(values) for name, values in columns.items()}


def w5(data):
    """Predicate and projection."""

    def graph():
        at = times(data["start"])
        value = csp.curve(float, (at, data["value"]))
        key = csp.curve(int, (at, data["key"].astype(np.int64)))
        kept = value > THRESHOLD
        csp.add_graph_output("value", csp.filter(kept, value) * 2.0 + 1.0)
        csp.add_graph_output("key", csp.filter(kept, key))

    seconds, found = run(csp.graph(graph), data["start"][-1] + 1)
    return seconds, {name: found[name][1] for name in ("key", "value")}


# Pushes -------------------------------------------------------------------------------------------

ADAPTERS = []


class Pushes(PushInputAdapter):
    """Adapter into which the main thread pushes."""

    def __init__(self):
        """Make it known to the main thread."""
        super().__init__()
        ADAPTERS.append(self)


pushed = py_push_adapter_def("pushed", Pushes, ts[object])


@csp.node
def keep(event: ts[object], receive: object, most: int):
    """Pass the events that satisfy the predicate, projected, on to a function."""
    with csp.state():
        s_seen = 0
    if csp.ticked(event):
        s_seen += 1
        if event[1] > THRESHOLD:
            receive((event[0], event[1] * 2 + 1))
        if s_seen == most:
            csp.stop_engine()


def push(data):
    """Push events one by one into a Python node, which runs in a thread of its own."""
    events = list(zip(data["key"].tolist(), data["value"].tolist(), strict=True))
    kept = []

    def graph():
        keep(pushed(push_mode=csp.PushMode.NON_COLLAPSING), kept.append, len(events))

    ADAPTERS.clear()
    now = datetime.now(UTC).replace(tzinfo=None)
    thread = csp.run_on_thread(
        csp.graph(graph), starttime=now, endtime=timedelta(hours=1), realtime=True
    )
    while not ADAPTERS:
        time.sleep(0.01)
    time.sleep(0.2)
    push_tick = ADAPTERS[0].push_tick
    begun = time.perf_counter()
    for event in events:
        push_tick(event)
    thread.join()
    seconds = time.perf_counter() - begun
    key, value = zip(*kept, strict=True)
    return seconds, {"key": np.array(key), "value": np.array(value)}


TASKS = {"w2": w2, "w3": w3, "w4": w4, "w5": w5, "push": push}


def main():
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints is not an answer
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        try:
            with np.load(wanted["data"]) as data:
                seconds, columns = TASKS[wanted["task"]](dict(data))
            np.savez(wanted["out"], **columns)
            answer = {"seconds": seconds}
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
