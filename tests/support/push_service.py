"""A service that is killed: threads and an event loop push numbered rows, and note the answers.

    python push_service.py FOLDER ROWS

It runs with ``resume=`` and a ``File`` in the folder. Each pusher continues after the numbers that
the file ``told`` has of it, as a client does that repeats what it has no answer to. A pusher's line
``name number`` is written after the verdict. The process ends when all have pushed ``ROWS`` rows.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from pathlib import Path

import rxtemporal as rxt

PUSHERS = ("one", "two", "loop", "batches")


def main() -> None:
    """Run the command line."""
    folder, rows = Path(sys.argv[1]), int(sys.argv[2])
    source = rxt.PushSource(
        "readings", schema={"who": str, "n": int}, start="t", seq="n", delay=10**9
    )
    told = os.open(folder / "told", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    first = dict.fromkeys(PUSHERS, 0)
    for line in (folder / "told").read_text().splitlines():
        name, number = line.split()
        first[name] = max(first[name], int(number) + 1)
    process = source.stream.run(rxt.File(folder / "out.jsonl"), resume=folder / "run")

    def row(name: str, number: int) -> dict[str, object]:
        return {"t": number, "who": name, "n": number}

    def tell(name: str, number: int, verdict: rxt.Verdict) -> None:
        assert verdict.accepted + verdict.duplicates == verdict.rows, verdict
        os.write(told, f"{name} {number}\n".encode())

    def push(name: str) -> None:
        with source.input(name) as into:
            for number in range(first[name], rows):
                tell(name, number, into.push(row(name, number)))

    def push_batches() -> None:
        for begin in range(first["batches"], rows, 40):
            end = min(begin + 40, rows)
            verdict = source.push([row("batches", n) for n in range(begin, end)], input="batches")
            tell("batches", end - 1, verdict)

    async def push_async(number: int) -> None:
        verdict = await source.push_async(row("loop", number), input="loop")
        assert verdict.rows == 1
        done.add(number)
        # the line says that all numbers up to it are accepted
        while (lowest := first["loop"]) in done:
            done.remove(lowest)
            first["loop"] = lowest + 1
            tell("loop", lowest, verdict)

    async def push_loop() -> None:
        for begin in range(first["loop"], rows, 8):
            await asyncio.gather(*map(push_async, range(begin, min(begin + 8, rows))))

    done: set[int] = set()
    threads = [
        threading.Thread(target=push, args=("one",)),
        threading.Thread(target=push, args=("two",)),
        threading.Thread(target=push_batches),
        threading.Thread(target=asyncio.run, args=(push_loop(),)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    source.close()
    process.wait()


if __name__ == "__main__":
    main()
