"""The way out: rows in interval, edge and point shape."""

from __future__ import annotations

import arrangements
import oracle
import physical
import pytest
import strategies
from hypothesis import given
from hypothesis import strategies as st
from oracle import MAX_TIME, MIN_TIME, Row

from rxtemporal import EventShape
from rxtemporal.core.batch import EventBatch
from rxtemporal.engine.shape import IntervalStep, make_shape_step

END = ("cti", MAX_TIME)


@given(data=st.data())
def test_intervals_are_complete_and_in_order(data: st.DataObject) -> None:
    """After a batch with CTI t exactly the rows with start < t have left, complete and in order."""
    items = [*data.draw(strategies.streams()), END]
    step = IntervalStep()
    out: list[EventBatch] = []
    expected = oracle.canonical(items)
    for batch in physical.batches(items, data.draw(strategies.cuts(len(items)))):
        made = step.on_batch(batch).check(out[-1].cti if out else MIN_TIME)
        assert not made.edge.any()
        out.append(made)
        so_far = physical.rows(out)
        assert oracle.history(so_far) == oracle.history([r for r in expected if r.start < made.cti])
        assert [row.start for row in so_far] == sorted(row.start for row in so_far)
    assert out[-1].cti == MAX_TIME
    assert step.rows == 0


@given(data=st.data())
def test_the_cti_is_held_at_the_oldest_open_row(data: st.DataObject) -> None:
    """An interval stream's CTI is the input's, or the start of the oldest open row."""
    items = data.draw(strategies.streams(extremes=False))
    step = IntervalStep()
    open_rows: list[tuple[int, object]] = []
    alone = arrangements.cut_evenly(items, 1)
    for item, batch in zip(items, physical.batches(items, alone), strict=True):
        named = (item[1], oracle.freeze(item[-1]))
        if item[0] == "start":
            open_rows.append(named)
        elif item[0] == "end":
            open_rows.remove(named)
        held = min([batch.cti, *(start for start, _ in open_rows)])
        assert step.on_batch(batch).cti == (batch.cti if batch.cti == MAX_TIME else held)


@pytest.mark.parametrize("shape", [EventShape.POINT, EventShape.EDGE])
@given(data=st.data())
def test_points_and_edges_pass_at_once(shape: EventShape, data: st.DataObject) -> None:
    """Point shape returns starts at once, edge shape all rows; the CTI is the input's."""
    items = [*data.draw(strategies.streams()), END]
    step = make_shape_step(shape)
    given_batches = physical.batches(items, data.draw(strategies.cuts(len(items))))
    out = [step.on_batch(batch) for batch in given_batches]
    assert [batch.cti for batch in out] == [batch.cti for batch in given_batches]
    rows = oracle.canonical(items)
    if shape is EventShape.POINT:
        rows = [Row(row.start, row.start + 1, row.payload) for row in rows]
    assert oracle.history(physical.rows(out)) == oracle.history(rows)
    assert step.rows == 0


def test_rows_in_order_before_the_cti_pass_as_they_are() -> None:
    """Where nothing waits a batch of complete rows is its own result; other rows are sorted."""
    step = IntervalStep()
    batch = EventBatch.from_dicts([{"start_time": 1, "x": 1}, {"start_time": 2, "x": 2}], cti=3)
    assert step.on_batch(batch) is batch
    late = EventBatch.from_dicts([{"start_time": 5, "x": 3}, {"start_time": 4, "x": 4}], cti=5)
    assert step.on_batch(late).start.tolist() == [4]
    assert step.on_batch(batch.none(6)).start.tolist() == [5]


def test_many_batches_may_wait() -> None:
    """Rows that came one by one leave in order of start, though some came out of order."""
    starts = [3 * n - (7 if n % 50 == 49 else 0) for n in range(300)]
    rows = [EventBatch.from_dicts([{"start_time": start, "x": start}], cti=0) for start in starts]
    step = IntervalStep()
    for row in rows:
        assert not len(step.on_batch(row))
    assert (step.rows, step.next_due) == (300, 0)
    out = [step.on_batch(rows[0].none(cti)) for cti in (5, 6, 500, 1_000)]
    assert [start for batch in out for start in batch.start.tolist()] == sorted(starts)
    assert [int(batch.start[-1]) for batch in out[:1]] == [3]
    assert (step.rows, step.next_due) == (0, None)
