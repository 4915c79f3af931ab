"""Counters over several lives of a process: they never go down."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from rxtemporal.metrics.catalog import Metric, MetricKind
from rxtemporal.metrics.samples import Histogram, Sample, Value

_Key: TypeAlias = tuple[Metric, tuple[str, ...]]


class Totals:
    """The totals of counters and histograms of a process that is started again and again.

    A run with ``log=`` or ``resume=`` continues with the counters of the life before, and all that
    its log has is counted again; so its counters are taken as they are, unless they are lower.
    Without either they begin at 0, and are added to the totals of the lives before.
    """

    def __init__(self) -> None:
        self._totals: dict[_Key, Value] = {}
        # what the lives before this one have counted, as far as this life does not
        self._before: dict[_Key, Value] = {}
        self._is_new, self._continues = False, False

    def begin_life(self, *, continues: bool) -> None:
        """Begin a new life; ``continues``: its counters are those of the life before."""
        self._is_new, self._continues = True, continues

    def add_up(self, samples: Iterable[Sample]) -> list[Sample]:
        """Return the samples of this life with totals in place of counters.

        A counter that this life does not have yet is there with its total.
        """
        samples = list(samples)
        counted = {each[:2]: each.value for each in samples if _is_count(each.metric)}
        if self._is_new:
            self._note_lives_before(counted)
        for key, value in counted.items():
            total = _plus(value, self._before.get(key))
            self._totals[key] = _highest(total, self._totals.get(key))
        gauges = [each for each in samples if not _is_count(each.metric)]
        return [*self.list_totals(), *gauges]

    def list_totals(self) -> list[Sample]:
        """Return the samples of counters and histograms at the last ``add_up``."""
        return [Sample(*key, value) for key, value in self._totals.items()]

    def _note_lives_before(self, counted: dict[_Key, Value]) -> None:
        self._is_new = False
        for key, total in self._totals.items():
            now = counted.get(key) if self._continues else None
            self._before[key] = total if now is None else _less(total, now)


def _is_count(metric: Metric) -> bool:
    return metric.kind is not MetricKind.GAUGE


def _plus(value: Value, before: Value | None) -> Value:
    if before is None:
        return value
    if isinstance(value, Histogram) and isinstance(before, Histogram):
        buckets = zip(value.buckets, before.buckets, strict=True)
        return Histogram(tuple(a + b for a, b in buckets), value.sum + before.sum)
    assert not isinstance(value, Histogram)
    assert not isinstance(before, Histogram)
    return value + before


def _less(total: Value, now: Value) -> Value:
    """Return by how much a total is above a value, at least 0."""
    if isinstance(total, Histogram) and isinstance(now, Histogram):
        buckets = zip(total.buckets, now.buckets, strict=True)
        return Histogram(tuple(max(a - b, 0) for a, b in buckets), max(total.sum - now.sum, 0.0))
    assert not isinstance(total, Histogram)
    assert not isinstance(now, Histogram)
    return max(total - now, 0)


def _highest(total: Value, last: Value | None) -> Value:
    """Return a total, or the last one where that is higher: counters are read without a lock."""
    if last is None or isinstance(total, Histogram) or isinstance(last, Histogram):
        return total
    return max(total, last)
