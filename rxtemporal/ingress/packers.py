"""Packers of sources: with one time for all rows, or a time for each device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.payloads import PayloadReader
from rxtemporal.ingress.packer import Packer
from rxtemporal.ingress.source import StreamSource
from rxtemporal.ingress.stream_time import StreamTime


def make_packer(
    source: StreamSource,
    name: str | None = None,
    times: StreamTime | None = None,
    *,
    tells_moves: bool = False,
) -> Packer:
    """Return a packer with a door for one run of a source; ``times`` are those of its streams.

    ``tells_moves``: batches say how the clocks of devices have moved among their rows.
    """
    make: Callable[..., Packer] = Packer
    if source.clock is not None:
        # imported here: it loads kernels
        from rxtemporal.ingress.device_packer import DevicePacker

        assert source.schema is not None
        make = partial(DevicePacker, source.clock, source.schema, tells_moves=tells_moves)
    return make(
        source.settings,
        name or source.name,
        PayloadReader(source.schema),
        source.min_rows,
        times or StreamTime(source.declared_time, source.describe_time()),
        delays_ctis=source.delays_ctis,
        omits_ctis=source.omits_ctis,
    )


def read_batches(source: StreamSource) -> Iterator[EventBatch]:
    """Yield the accepted batches of a single source, read to its end."""
    packer, cursor = make_packer(source, tells_moves=True), source.open()
    batch: EventBatch | None
    for item in cursor:
        if isinstance(item, EventBatch):
            batch = packer.take_batch(item if cursor.checked else packer.check_batch(item))
        else:
            batch = packer.take(item)
        if batch is not None:
            yield batch
    last = packer.pack_last()
    if last is not None:
        yield last
