"""Gate of a run's hand-offs: a thread that is interrupted does not keep it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from rxtemporal.run.hand_off.gate import Gate
from rxtemporal.run.run_end import RunEnd


class InterruptedLock:
    """Lock whose ``acquire`` is interrupted, with the lock or without it."""

    def __init__(self, lock: threading.RLock, acquires: bool) -> None:  # type: ignore[valid-type]
        self._lock, self._acquires = lock, acquires

    def acquire(self) -> None:
        """Acquire the lock, perhaps, and be interrupted."""
        if self._acquires:
            self._lock.acquire()  # type: ignore[attr-defined]
        raise KeyboardInterrupt


def is_free(gate: Gate) -> bool:
    """Return True if another thread gets the gate."""
    got: list[bool] = []

    def try_it() -> None:
        acquire: Callable[..., bool] = gate._lock.acquire
        if acquire(blocking=False):
            got.append(True)
            gate.release()

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    return bool(got)


@pytest.mark.parametrize("acquires", [True, False])
@pytest.mark.parametrize("nested", [True, False])
def test_an_interrupt_while_entering_leaves_the_gate_as_it_was(
    acquires: bool, nested: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has entered it before still holds it, and nobody else does."""
    gate = Gate(RunEnd())
    if nested:
        gate.__enter__()
    lock = gate._lock
    monkeypatch.setattr(gate, "_lock", InterruptedLock(lock, acquires or nested))
    with pytest.raises(KeyboardInterrupt):
        gate.__enter__()
    monkeypatch.setattr(gate, "_lock", lock)
    assert (gate.depth, gate.is_owned(), is_free(gate)) == (nested, nested, not nested)
    if nested:
        gate.__exit__(None, None, None)
    assert is_free(gate)
