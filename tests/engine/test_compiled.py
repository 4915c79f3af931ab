"""Kernels are compiled when first called, and whoever asks is told of it."""

from __future__ import annotations

from numba.core import event as numba_event

from rxtemporal.engine.kernels.compiled import on_first_compile


def test_the_first_compilation_calls_back_once() -> None:
    """The callback is called once, and only inside the block."""
    told: list[str] = []

    def compile_one() -> None:
        numba_event.start_event("numba:compile")
        numba_event.end_event("numba:compile")

    with on_first_compile(lambda: told.append("compiling")):
        compile_one()
        compile_one()
    compile_one()
    assert told == ["compiling"]
