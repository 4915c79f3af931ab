"""Compilation of the kernels of a service's queries, in the background."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rxtemporal.operators.plan import Node, list_nodes
from rxtemporal.query.application import Application
from rxtemporal.query.compilation import compile_plan


class Compilation:
    """Thread that compiles the kernels of a plan, so that no sender waits for them.

    They are kept on disk: a later start of the same release only reads them. Each operator whose
    kernels have to be compiled is logged.

    >>> compilation = Compilation([])
    >>> compilation.start()
    >>> compilation.wait()
    >>> compilation.describe()
    True
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._ended = threading.Event()
        self._number = 0

    @classmethod
    def of_application(cls, application: Application) -> Compilation:
        """Return that of the queries of an application."""
        return cls(list_nodes([each._node for each in application.queries.values()]))

    def start(self) -> None:
        """Begin."""
        threading.Thread(target=self._run, name="rxtemporal compiles", daemon=True).start()

    def wait(self) -> None:
        """Wait for the end, also of one that is cancelled."""
        self._ended.wait()

    def cancel(self) -> None:
        """Compile no further operator."""
        self._ended.set()

    def describe(self) -> bool | str:
        """Return True at the end; before that, how far it is."""
        if self._ended.is_set():
            return True
        return f"kernels are compiled: {self._number} of {len(self._nodes)} operators"

    def _run(self) -> None:
        try:
            for number in compile_plan(self._nodes):
                self._number = number
                if self._ended.is_set():
                    return
        finally:
            self._ended.set()
