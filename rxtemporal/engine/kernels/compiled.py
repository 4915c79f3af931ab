"""The one wrapper of numba's ``njit``.

Importing this module loads numba; only steps import kernels, and only when a query first runs.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba.core import event as numba_event

from rxtemporal.core.log import get_logger

P = ParamSpec("P")
R = TypeVar("R")
Array = TypeVar("Array", bound=npt.NDArray[Any])

_log = get_logger(__name__)

# Steps allocate and free some megabytes for each batch. The C library returns freed blocks above a
# threshold to the system at once and gets them back page by page for the next batch, which is a
# quarter of a query's time on a virtual machine. It raises the threshold to the size of the largest
# block freed so far, up to 32 MiB (glibc, mallopt(3), M_MMAP_THRESHOLD): this one, which is never
# touched and costs nothing.
np.empty(31 << 20, np.uint8)


def jit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel when it is first called, and keep the machine code on disk.

    If neither the package's folder nor the user's cache can be written, numba refuses to cache at
    all; the cache is then in a temporary folder, and every process compiles again.

    For speed, pass arrays as arguments and assign none in a loop (each assignment counts
    references), and index by unsigned numbers (a signed one is tested for being negative).
    """
    try:
        return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]
    except RuntimeError:
        _use_temporary_cache()
        return numba.njit(cache=True, nogil=True)(function)  # type: ignore[no-any-return]


def borrow(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a part of kernels that only reads and writes arrays of its caller.

    It counts no references to them, and is machine code of each kernel that calls it. So it may
    take many arrays; it can make none, nor return one.
    """
    compiled = numba.njit(
        nogil=True, forceinline=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )
    return compiled(function)  # type: ignore[no-any-return]


def freeze(array: Array) -> Array:
    """Return the array, contiguous and read-only: a kernel is compiled again for any other kind."""
    flags = array.flags
    if not flags.c_contiguous:
        array = np.ascontiguousarray(array)  # type: ignore[assignment]
    if flags.writeable:
        array = array.view()
        array.setflags(False)  # type: ignore[call-arg] # a keyword takes four times as long
    return array


class _FirstCompile(numba_event.Listener):  # type: ignore[misc]
    """Calls a function when the first kernel is compiled, and never again."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback: Callable[[], None] | None = callback

    def on_start(self, event: Any) -> None:
        """Call the function, the first time."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()

    def on_end(self, event: Any) -> None:
        """Do nothing."""


@contextlib.contextmanager
def on_first_compile(callback: Callable[[], None]) -> Iterator[None]:
    """Call ``callback`` if a kernel has to be compiled inside the block; not if all are cached."""
    with numba_event.install_listener("numba:compile", _FirstCompile(callback)):
        yield


def _use_temporary_cache() -> None:
    folder = tempfile.mkdtemp(prefix="rxtemporal-kernels-")
    numba.config.CACHE_DIR = folder
    _log.warning("no place to keep compiled kernels: each process compiles again", folder=folder)
