"""The one wrapper of numba's ``njit``.

Importing this module loads numba; only steps import kernels, and only when a query first runs.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numba
import numpy as np
import numpy.typing as npt
from numba.core import caching
from numba.core import event as numba_event
from numba.core.registry import cpu_target

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

    Code beside the source is found even if that folder cannot be written, or if NUMBA_CACHE_DIR
    names another for new code: an environment that is packed after its kernels were compiled brings
    them along. If there is no folder that can be written, numba refuses to cache at all; the cache
    is then in a temporary folder, and every process compiles what is not beside the source.

    For speed, pass arrays as arguments and assign none in a loop (each assignment counts
    references), and index by unsigned numbers (a signed one is tested for being negative).
    """
    try:
        kernel = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:
        _use_temporary_cache()
        kernel = numba.njit(cache=True, nogil=True)(function)
    if not numba.config.DISABLE_JIT:
        kernel._cache = _ShippedCode(function)
    return kernel  # type: ignore[no-any-return]


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


_PLAIN = (bool, int, float, complex, str, bytes, np.generic, type(None))


@functools.cache
def _list_parts(function: Callable[..., Any]) -> tuple[str, tuple[Callable[..., Any], ...]]:
    """Return what a function is compiled from, as text, and the compiled functions that it uses."""
    codes, text, names = [function.__code__], list[object](), set[str]()
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
        constants = [_write_constant(each) for each in code.co_consts]
        text += [code.co_code, code.co_varnames, code.co_names, constants]
        names.update(code.co_names, code.co_freevars)
    # named tuples are in annotations alone, and their fields have an order
    names |= _find_words(function)
    known = {**function.__globals__, **inspect.getclosurevars(function).nonlocals}
    functions = list[Callable[..., Any]]()
    for name in sorted(names & known.keys()):
        value = known[name]
        if hasattr(value, "py_func"):
            functions.append(value.py_func)
        elif isinstance(value, ModuleType) and value.__name__.startswith("rxtemporal."):
            raise TypeError(
                f"{function.__name__} reads from the module {name}, which is not part of its hash. "
                "Hint: import the constant or the function itself."
            )
        elif (written := _write_constant(value)) is not None:
            text.append((name, written))
    return repr(text), tuple(functions)


def _write_constant(value: Any) -> object:
    """Return a constant as text that is the same in each process; None for anything else."""
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, frozenset):
        return sorted(map(repr, value))
    if isinstance(value, tuple):
        return [_write_constant(each) for each in value]
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        known = vars(sys.modules[value.__module__])
        inner = [known.get(word) for word in sorted(_find_words(value) - {value.__name__})]
        return value._fields, [_write_constant(each) for each in inner if isinstance(each, type)]
    return None


def _find_words(annotated: Any) -> set[str]:
    """Return the names in the annotations of a function or a class."""
    return set(re.findall(r"\w+", " ".join(map(str, annotated.__annotations__.values()))))


def find_source(function: Callable[..., Any]) -> str:
    """Return a hash of all that is compiled into a kernel: functions, constants, fields of tuples.

    numba itself looks at the file of the kernel alone.
    """
    todo, digest = [function], hashlib.sha256()
    for each in todo:
        text, functions = _list_parts(each)
        digest.update(text.encode())
        todo += [other for other in functions if other not in todo]
    return digest.hexdigest()


class _OwnCode(caching.FunctionCache):  # type: ignore[misc]
    """Cache of a kernel, whose code is compiled again when anything in it has changed."""

    @functools.cached_property
    def _stamp(self) -> tuple[Any, str]:
        return self._cache_file._source_stamp, find_source(self._py_func)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        # not before: functions that are defined below the kernel belong to it, too
        self._cache_file._source_stamp = self._stamp
        return super()._load_overload(sig, target_context)

    def _save_overload(self, sig: Any, data: Any) -> None:
        self._cache_file._source_stamp = self._stamp
        super()._save_overload(sig, data)


class _BesideSource(caching.InTreeCacheLocator):  # type: ignore[misc]
    """The folder beside the source, to read from: it need not be writable."""

    def ensure_cache_path(self) -> None:
        """Do nothing; numba asks before it reads, too."""


class _BesideSourceFiles(caching.CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_BesideSource,)


class _ShippedCode(_OwnCode):
    """Cache that reads the code beside the source, then another cache, and writes to that one."""

    _impl_class = _BesideSourceFiles
    # kernels that were compiled in this process
    compiled = 0

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._other = _OwnCode(function)

    @property
    def cache_path(self) -> str:
        """The folder of new code."""
        return str(self._other.cache_path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for a signature, or None."""
        with contextlib.suppress(OSError):  # a folder that cannot even be read
            if (found := super().load_overload(sig, target_context)) is not None:
                return found
        return self._other.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the code for a signature."""
        _ShippedCode.compiled += 1
        self._other.save_overload(sig, data)


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


class CodeFolder(NamedTuple):
    """Folder of new machine code; ``lasts`` is False if only this process has it.

    ``cpu`` is the processor that code is made for: code for one is not found on another.
    ``compiled`` is the number of kernels that this process has compiled, and not found.
    """

    path: str
    lasts: bool
    cpu: str
    compiled: int


def find_code_folder() -> CodeFolder:
    """Return the folder of new machine code, of the kernels in this module's folder."""
    path = str(jit(find_code_folder)._cache.cache_path)  # type: ignore[attr-defined]
    _, cpu, _ = cpu_target.target_context.codegen().magic_tuple()
    return CodeFolder(path, _TEMPORARY not in path, cpu, _ShippedCode.compiled)


_TEMPORARY = "rxtemporal-kernels-"


def _use_temporary_cache() -> None:
    folder = tempfile.mkdtemp(prefix=_TEMPORARY)
    numba.config.CACHE_DIR = folder
    _log.warning("no place to keep compiled kernels: each process compiles again", folder=folder)
