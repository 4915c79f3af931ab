"""synchronize: one time for the devices of a stream in which each has its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from rxtemporal.core.batch import Int64s
from rxtemporal.core.safe_text import brief
from rxtemporal.core.spans import Span, describe_span, span
from rxtemporal.core.time_forms import find_span_form
from rxtemporal.errors import ArgumentError
from rxtemporal.ingress.settings import AdvanceTimePolicy
from rxtemporal.operators.causes.carried_rows import carry, get_cti, match_output
from rxtemporal.operators.causes.causes import Causes
from rxtemporal.operators.causes.history import History
from rxtemporal.operators.operator import Keys, Operator
from rxtemporal.operators.partition_keys import PartitionRule

if TYPE_CHECKING:
    from rxtemporal.engine.stage import Stage
    from rxtemporal.engine.step import Step
    from rxtemporal.ingress.clock_settings import ClockSettings


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Synchronize(Operator):
    """One time for all devices: that of the most advanced one, less a span."""

    name = "synchronize"
    within: int
    idle_after: int | None
    devices: int | tuple[Any, ...] | None
    policy: AdvanceTimePolicy
    # the span of silence after which the fleet moves a device of the source
    silent_after: int | None = None
    silent_by_wall: bool = False
    keeps_lifetimes = True
    holds = "the ids of open edges"

    @property
    def cti_rule(self) -> str:
        """The output CTI, as text for users."""
        rule = f"{describe_span(self.within)} behind the most advanced device"
        if self.devices is None:
            return rule
        return f"that of the device furthest behind once all have come, at least {rule}"

    @property
    def makes_one_time(self) -> bool:
        """True: the times of devices become one time for all."""
        return True

    def check_device_sources(self, count: int) -> None:
        """Raise if devices are to be waited for that are in several sources."""
        if self.devices is not None and count > 1:
            raise ArgumentError(
                f"synchronize waits with devices= for those of one source, and this stream has "
                f"{count}. Hint: .synchronize(…, devices=…) of each source, before they meet."
            )

    def check_devices(self, fields: pl.Schema) -> None:
        """Raise if a device is not of the type of the fields that name it."""
        if not isinstance(self.devices, tuple):
            return
        # imported here: few queries name their devices
        from rxtemporal.core.fields import UnfitError, field_of

        checks = [field_of(name, dtype) for name, dtype in fields.items()]
        for device in self.devices:
            values = (device,) if len(checks) == 1 else device
            try:
                if not isinstance(values, tuple) or len(values) != len(checks):
                    raise UnfitError(f"a device is a tuple of {', '.join(fields)}")
                for each, value in zip(checks, values, strict=True):
                    each.check(value)
                    if value != value:
                        raise UnfitError("NaN is equal to no other value")
            except UnfitError as error:
                raise ArgumentError(
                    f"synchronize: devices= has {brief(device)}, which no row can name: {error}"
                ) from None

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: the rows of all devices are judged by one time."""
        return PartitionRule((), ())

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step."""
        from rxtemporal.operators.synchronize.step import SynchronizeStep

        return SynchronizeStep(
            self.within, self.idle_after, self.silent_after, self.devices, self.policy,
            silent_by_wall=self.silent_by_wall,
        )  # fmt: skip

    def get_stage_type(self) -> type[Stage]:
        """Return the type of the stages, which tell of the late rows."""
        from rxtemporal.operators.synchronize.stage import SynchronizeStage

        return SynchronizeStage

    def follow_source(self, clock: ClockSettings) -> Synchronize:
        """Return the operator for a source with these settings of its devices' clocks."""
        return dataclasses.replace(
            self, silent_after=clock.quiet, silent_by_wall=clock.silent_by_wall
        )

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of rows of the output."""
        made = carry(self, inputs, get_cti(output))
        of, at = match_output(output, made, rows)
        return Causes.of_pairs(of, made.numbers[0][at])


def synchronize(
    within: Span,
    idle_after: Span | None = None,
    *,
    devices: int | Collection[Any] | None = None,
    policy: AdvanceTimePolicy = AdvanceTimePolicy.DROP,
) -> Synchronize:
    """Make one time of the times of devices, for operators that compute over several of them.

    The CTI is that of the most advanced device less ``within``, so that a device which has not come
    yet has that long to appear. A row that is ahead of the wall clock does not count. Lists, frames
    and files are not compared with the wall clock; there the second most advanced device counts, so
    that one wrong clock moves nobody else.

    ``devices`` are the names of the devices of the source, or their number. Once all of them have
    come, the CTI is that of the device furthest behind, if that is higher. Devices that are
    ``idle_after`` or more behind the most advanced one, or silent for ``silent_after=`` of the
    source, are not waited for. A CTI that the source sends for all devices holds here, too.

    Rows are judged where they enter the query, each by the CTI that the rows before it have made,
    however they are cut into batches. Operators before this one are computed from the rows that are
    in time, as if it came first. So results are the same live, in a replay and after a recovery.
    Results by device of the same query do not change.

    Rows and lifetimes stay. A row that starts before the CTI is a late event of this operator, in
    ``Process.late`` and in the diagnostics, and is judged as at the door of a stream: ``policy``
    drops it or moves its start to the CTI; a late end edge is moved to the CTI, and the end edge of
    a dropped start is dropped. Held: the ids of open edges, and with ``devices`` the CTI of each.

    Errors: ``ArgumentError`` on a stream that has one time already, and with ``devices`` behind
    several sources.

    >>> import rxtemporal as rxt
    >>> from rxtemporal import agg
    >>> rows = [("a", 0), ("a", 70), ("b", 5), ("b", 80), ("a", 140)]
    >>> events = [rxt.PointEvent(time, {"device": name}) for name, time in rows]
    >>> readings = rxt.from_events(events, advance_time=0, clock="device")
    >>> counts = readings.synchronize(90).tumbling_window(60).aggregate(n=agg.count())
    >>> counts.to_polars(time="ticks").rows()
    [(0, 60, 2), (60, 120, 2), (120, 180, 1)]
    """
    if not isinstance(policy, AdvanceTimePolicy):
        raise ArgumentError(f"policy is AdvanceTimePolicy.DROP or ADJUST, got {policy!r}")
    return Synchronize(
        within=span(within, "within", least=0),
        idle_after=None if idle_after is None else span(idle_after, "idle_after", least=1),
        devices=_read_devices(devices),
        policy=policy,
        time=find_span_form(within, *([] if idle_after is None else [idle_after])),
    )


def _read_devices(devices: Any) -> int | tuple[Any, ...] | None:
    if devices is None:
        return None
    if isinstance(devices, int) and not isinstance(devices, bool) and devices > 0:
        return devices
    are_names = isinstance(devices, (list, tuple, set, frozenset)) and devices
    if are_names and all(isinstance(each, Hashable) for each in devices):
        return tuple(sorted(devices, key=repr))
    raise ArgumentError(
        f"devices is a list of the devices, or how many there are, got {brief(devices)}. "
        "Hint: devices=3, or devices=['a', 'b']."
    )
