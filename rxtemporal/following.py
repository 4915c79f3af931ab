"""An iterator followed on a thread of its own, as if it pushed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from reactivex import abc
from reactivex.disposable import Disposable


def follow(items: Iterator[Any], observer: abc.ObserverBase[Any], name: str) -> abc.DisposableBase:
    """Hand what an iterator gives to an observer, each item when the one before has been taken.

    Once what is returned is disposed nothing more is handed on. The thread ends with the iterator;
    who closes that lets go of a thread that waits in it.
    """
    stopped = threading.Event()

    def run() -> None:
        try:
            for item in items:
                if stopped.is_set():
                    return
                observer.on_next(item)
        except Exception as error:
            observer.on_error(error)
        else:
            observer.on_completed()

    threading.Thread(target=run, name=name, daemon=True).start()
    return Disposable(stopped.set)
