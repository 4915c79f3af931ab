"""Operators: frozen descriptions, validated when composed, that make steps."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from functools import partial, reduce
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import polars as pl

from rxtemporal.core.batch import EventBatch
from rxtemporal.core.ticks import MIN_TIME
from rxtemporal.core.time_forms import TimeForm
from rxtemporal.errors import ArgumentError, SchemaError, blame
from rxtemporal.operators import expressions
from rxtemporal.operators.partition_keys import PartitionRule, partition_by_row

if TYPE_CHECKING:
    from reactivex import Observable

    from rxtemporal.core.batch import Int64s
    from rxtemporal.engine.stage import Meter, Stage
    from rxtemporal.engine.step import Step, TwoInputStep
    from rxtemporal.ingress.clock_settings import ClockSettings
    from rxtemporal.ingress.side_source import SideSource
    from rxtemporal.ingress.source import StreamSource
    from rxtemporal.operators.causes.causes import Causes
    from rxtemporal.operators.causes.history import History
    from rxtemporal.operators.causes.lost_row import Fate, LostRow


# fields that are not settings of an operator: a span is the same number however it was given
_UNWRITTEN = ("line", "time", "label", "given")
# the metadata of a field that operators of an earlier version do not have
ADDED_LATER = MappingProxyType({"added later": True})
# objects of other packages are users' code, and their attributes are its parameters
_PACKAGE = __name__.partition(".")[0]
_NOT_USERS = {_PACKAGE, "polars", "numpy", *sys.stdlib_module_names} - {"__main__"}


def describe_settings(described: Any) -> str:
    """Return the fields of an operator, or of a part of one, with their values.

    A field that was added later (``ADDED_LATER``) is left out while it has its default: so a query
    that has been saved before is still the same.
    """
    fields = [
        f.name
        for f in dataclasses.fields(described)
        if f.name not in _UNWRITTEN
        and not ("added later" in f.metadata and _is_default(getattr(described, f.name), f.default))
    ]
    return _join((name, describe_value(getattr(described, name))) for name in fields)


def _is_default(value: Any, default: Any) -> bool:
    # an expression is not compared, but compares
    return value is default or (not isinstance(value, pl.Expr) and bool(value == default))


def describe_value(value: Any, within: tuple[int, ...] = ()) -> str:
    """Return a setting of an operator as text that is the same in another process.

    Of code it is the name, and the parameters: attributes of objects, default arguments of
    functions, and the constants that they take from functions around them. ``within`` are the ids
    of the objects that contain the value.
    """
    if id(value) in within:
        return "..."
    if isinstance(value, type):
        return value.__qualname__
    inner = functools.partial(describe_value, within=(*within, id(value)))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(inner, value))}]"
    if type(value) is dict:  # not a schema, which has a text of its own
        return f"{{{', '.join(f'{inner(key)}: {inner(each)}' for key, each in value.items())}}}"
    if isinstance(value, (set, frozenset)):  # in no order that another process would have
        return f"{{{', '.join(sorted(map(inner, value)))}}}"
    if isinstance(value, pl.Expr):
        return expressions.describe(value)
    if dataclasses.is_dataclass(value) and not _is_users(type(value)):
        return f"{type(value).__name__}({describe_settings(value)})"
    found = dict(_list_parameters(value))
    if not found and _is_plain(value):
        return repr(value)
    name = str(getattr(value, "__qualname__", type(value).__qualname__))
    return f"{name}({_join((n, inner(found[n])) for n in sorted(found))})" if found else name


def has_user_code(value: Any, within: tuple[int, ...] = ()) -> bool:
    """Return True if a setting of an operator is a user's function or object, or contains one.

    Only such code may give something else for the same rows. ``within`` are the ids of the objects
    that contain the value.
    """
    if id(value) in within or isinstance(value, enum.Enum):
        return False
    if isinstance(value, type):  # a class may be called as a function is
        return _is_users(value)
    inner = functools.partial(has_user_code, within=(*within, id(value)))
    if isinstance(value, (list, tuple, set, frozenset)):
        return any(map(inner, value))
    if isinstance(value, dict):
        return any(map(inner, value.values()))
    if isinstance(value, pl.Expr):
        return expressions.has_function(value)
    if _is_users(type(value)):
        return True
    if dataclasses.is_dataclass(value):
        return any(inner(getattr(value, field.name)) for field in dataclasses.fields(value))
    return callable(value) and _is_users_function(value)


def _is_users_function(value: Any) -> bool:
    """Return True unless a function is one of this package's."""
    return not str(getattr(value, "__module__", None)).startswith(f"{_PACKAGE}.")


def _join(settings: Iterator[tuple[str, str]]) -> str:
    return ", ".join(f"{name}={text}" for name, text in settings)


def _is_users(kind: type) -> bool:
    return kind.__module__.partition(".")[0] not in _NOT_USERS


def _is_plain(value: Any) -> bool:
    """Return True if the text of a value says what it is, and is the same in another process."""
    if isinstance(value, enum.Enum):
        return True
    # a frame is data, whose text is neither short nor complete
    if callable(value) or hasattr(value, "__dataframe__"):
        return False
    try:
        text = repr(value)
    except Exception:  # of a user's class
        return False
    return not text.startswith("<") and " at 0x" not in text


def _list_parameters(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of a user's code by name; nothing for other values."""
    if isinstance(value, functools.partial):
        yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    elif isinstance(value, types.MethodType):
        yield "self", value.__self__
    elif isinstance(value, types.FunctionType):
        yield from _list_variables(value)
    elif _is_users(type(value)) and not isinstance(value, enum.Enum):
        yield from _list_attributes(value).items()


def _list_variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the default arguments of a function, and its variables from functions around it."""
    code, defaults = function.__code__, function.__defaults__ or ()
    arguments = code.co_varnames[: code.co_argcount]
    yield from zip(arguments[len(arguments) - len(defaults) :], defaults, strict=True)
    yield from (function.__kwdefaults__ or {}).items()
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        try:
            content = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
        if not _may_change(content):
            yield name, content


def _may_change(value: Any) -> bool:
    """Return True for what a function may use as its memory, which is not a parameter."""
    if isinstance(value, (list, dict, set)):
        return True
    return _is_users(type(value)) and not isinstance(value, (enum.Enum, tuple, types.FunctionType))


def _list_attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object of a user's class, and those that its class gives it."""
    found: dict[str, Any] = {}
    slots = list[str]()
    for kind in reversed(type(value).__mro__):
        if _is_users(kind):
            found |= {n: v for n, v in vars(kind).items() if n[0] != "_" and not _is_code(v)}
            declared = kind.__dict__.get("__slots__", ())
            slots += [declared] if isinstance(declared, str) else declared
    found |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
    found |= getattr(value, "__dict__", {})
    # a value that is computed once and kept is not a parameter
    computed = functools.cached_property
    return {
        name.lstrip("_"): each
        for name, each in found.items()
        if not isinstance(getattr(type(value), name, None), computed)
    }


def _is_code(value: Any) -> bool:
    """Return True for methods, properties and the like, and for classes."""
    return hasattr(type(value), "__get__") or isinstance(value, type)


Keys = tuple[str, ...]
_PACKAGE = __name__.partition(".")[0]


def find_caller_line() -> str:
    """Return ``file:line`` of the nearest caller outside this package, which composes the query."""
    frame = sys._getframe(1)
    # compare modules, since methods generated by dataclasses have no file
    while (
        frame.f_back is not None
        and str(frame.f_globals.get("__name__")).partition(".")[0] == _PACKAGE
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class RowExpression(NamedTuple):
    """An expression computed for each row, the fields that it sees, and a name for explain()."""

    name: str
    expression: pl.Expr
    fields: pl.Schema


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class _Description:
    """Base class of operators with one or two inputs.

    An operator has no state: each subscription makes its own step.
    """

    line: str = dataclasses.field(default_factory=find_caller_line, repr=False)
    # the form of the streams over which its spans are meant; None: of any
    time: TimeForm | None = dataclasses.field(default=None, repr=False)
    # a name by which its state is found after a change of the query
    label: str | None = dataclasses.field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The operator's name, as users type it."""
        raise NotImplementedError

    @property
    def cti_rule(self) -> str:
        """The output CTI for an input CTI ``t``, as text for users."""
        return "t"

    @property
    def holds(self) -> str:
        """The rows that a step of this operator holds, and until when, as text for users."""
        return "nothing"

    @property
    def place(self) -> str:
        """The place that an error names: the operator and the line that composed it."""
        return f"in {self.name}, composed at {self.line}"

    @property
    def moves_time(self) -> bool:
        """True if the output CTI may be above that of the input."""
        return not self.passes_time

    @property
    def holds_time(self) -> bool:
        """True if the output CTI may be below that of the input, as long as rows of a key say."""
        return False

    @property
    def makes_one_time(self) -> bool:
        """True if the times of devices become one time for all."""
        return False

    def follow_source(self, clock: ClockSettings) -> Self:
        """Return the operator for a source of whose devices it makes one time."""
        raise NotImplementedError

    def check_device_sources(self, count: int) -> None:
        """Raise if the operator cannot stand behind so many sources of devices."""

    def check_devices(self, fields: pl.Schema) -> None:
        """Raise if the operator names devices that cannot be: ``fields`` name the devices."""

    @property
    def passes_time(self) -> bool:
        """True if CTIs pass unchanged before the first row."""
        return True

    @property
    def passes_rows(self) -> bool:
        """True if each row leaves alone and with its own lifetime."""
        return False

    keeps_lifetimes = False
    """True if each row leaves with the lifetime with which it came."""
    filters = False
    """True if it drops the rows that do not satisfy the user's predicate."""
    projects = False
    """True if all that it does is to compute fields of each row from that row."""
    takes_late_rows = False
    """True if rows that are late at the door count from the CTI on."""
    checks_ctis = False
    """True if it raises where the user's function breaks a CTI that has been passed on."""
    reads_times = False
    """True if it has a form of times because it reads them, and not because of its spans."""
    knows_ends = False
    """True if the end of each row is known when it leaves."""
    costly = "computed from all rows of each window"
    """The slow way of what ``list_costly`` names."""
    pairs_rows = False
    """True if a row may be in results for a part of its lifetime, and in none for another."""

    @property
    def row_filter(self) -> pl.Expr | None:
        """The predicate, if all that it does is to drop the rows that do not satisfy it."""
        return None

    def list_expressions(
        self, schemas: tuple[pl.Schema, ...], keys: Keys
    ) -> Sequence[RowExpression]:
        """Return the expressions that are computed for each row."""
        return ()

    def list_costly(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> Sequence[str]:
        """Return the names of what takes the slow way that ``costly`` describes."""
        return ()

    def fingerprint(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> str:
        """Return a text that identifies the operator, its settings, its fields and its keys."""
        fields = "; ".join(
            ", ".join(f"{name} {dtype}" for name, dtype in schema.items()) for schema in schemas
        )
        return f"{self.name}({describe_settings(self)}) over ({fields}) by {list(keys)}"

    def output_keys(self, keys: Keys) -> Keys:
        """Return the keys by which the output stream is grouped."""
        return keys

    # For those who take a run apart ---------------------------------------------------------------

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the direct causes of ``rows`` of the output, which are sorted and unique.

        Histories are finished: they have times, payloads, and the order in which rows left.
        """
        raise NotImplementedError(f"{self.name} does not say what its rows stand on")

    @property
    def cause_parts(self) -> tuple[str, ...]:
        """The parts that causes may have in a result, by the number that causes give."""
        return ()

    def explain_loss(self, lost: LostRow) -> Fate:
        """Return why no row of the output stands on a row of an input."""
        return lost.tell_end()

    def only_removes(self, side: int) -> bool:
        """Return True if the rows of an input (0 or 1) only end or remove those of the other."""
        return False

    def find_windows(self, start: Int64s, end: Int64s) -> tuple[Int64s, Int64s] | None:
        """Return starts and ends of the windows of results; None if there are none, or unknown."""
        return None

    ends_grouping: ClassVar[bool] = False
    """True if it does nothing but say that rows of different keys are taken together from here."""
    incomplete: ClassVar[Literal["dropped", "kept"] | None] = None
    """The fate of results that may lack rows from before the operator began, until they end.

    Windows are dropped. Rows are kept beside which others may be missing. None: the output is
    complete from ``find_complete`` on.
    """

    def find_complete(self, begin: int) -> int:
        """Return the time from which on the output is complete, in a stream that begins at a time.

        All rows alive at ``begin`` are there, but those that ended before it are missing. Of
        windows it is the earliest start of one that lacks no row.
        """
        return begin

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule that says which rows of the inputs must be in the same partition.

        There is no default: a plan that is split wrongly gives wrong results without an error.
        """
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Operator(_Description):
    """One temporal operator, as a value that works in ``pipe`` and in a plan."""

    def output(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the output schema for an input schema; raise if the input does not fit."""
        return schema

    def for_stream(self, form: TimeForm | None, schema: pl.Schema | None) -> Self:
        """Return the operator for a stream whose times have this form, and rows these fields.

        None stands for what nobody knows yet.
        """
        return self

    def check_ends(self, *, are_known: bool) -> None:
        """Raise if the operator reads the ends of rows, and they may not be known."""

    def check_sources(self, sources: Sequence[StreamSource | SideSource]) -> None:
        """Raise if the operator loses rows of these sources, whose rows reach it as they are."""

    def make(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step for streams of this schema.

        Steps are imported here, so that only a query that runs loads them and their kernels.
        """
        raise NotImplementedError

    def step(self, schema: pl.Schema, keys: Keys) -> Step:
        """Return a new step that knows what it is made for, and loads no other one's state."""
        step = self.make(schema, keys)
        step.identify(self.fingerprint((schema,), keys))
        return step

    def check(self, schema: pl.Schema, keys: Keys) -> pl.Schema:
        """Return ``output``, and blame this operator where it raises."""
        try:
            return self.output(schema, keys)
        except Exception as error:
            blamed = blame(error, self.place)
            raise blamed from blamed.__cause__

    def make_stage(
        self,
        inputs: Sequence[Meter],
        schemas: tuple[pl.Schema | None, ...] = (None,),
        clock: Callable[[], float] = float,
    ) -> Stage:
        """Return the stage of this operator in a new run; the meter of its input comes before it.

        ``schemas`` are those of the inputs, as far as the plan knows them.
        """
        make, passes = self._check_and_make, self.passes_time
        kind = self.get_stage_type()
        return kind(make, self.place, inputs, passes_time=passes, clock=clock)

    def get_stage_type(self) -> type[Stage]:
        """Return the type of the stages of this operator."""
        from rxtemporal.engine.stage import Stage

        return Stage

    def __call__(self, source: Observable[EventBatch]) -> Observable[EventBatch]:
        """Return the observable of this operator's output for a source."""
        from rxtemporal.reactive.lift import lift

        return lift(self.make_stage, source)

    def _check_and_make(self, batch: EventBatch) -> Step:
        operator = self.for_stream(batch.time, batch.schema)
        operator.output(batch.schema, batch.keys)
        return operator.step(batch.schema, batch.keys)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class RowOperator(Operator):
    """An operator that computes each row from that row alone and keeps its payload."""

    @property
    def passes_rows(self) -> bool:
        """True if each row leaves with its own lifetime, too."""
        return self.keeps_lifetimes

    def partition(self, schemas: tuple[pl.Schema, ...], keys: Keys) -> PartitionRule:
        """Return the rule: each row is seen alone."""
        return partition_by_row(schemas[0])

    def find_causes(self, inputs: Sequence[History], output: History, rows: Int64s) -> Causes:
        """Return the row that each one was made of, which computes the operator again."""
        from rxtemporal.operators.causes.carried_rows import find_carried_rows

        return find_carried_rows(self, inputs, output, rows)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class TwoInputs(_Description):
    """One temporal operator of two streams, both ungrouped or grouped by the same keys."""

    @property
    def cti_rule(self) -> str:
        """The lower of the two input CTIs."""
        return "the lower of the two"

    def output(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the output schema for two input schemas; raise if they do not fit."""
        raise NotImplementedError

    def make(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step for streams of these schemas, grouped by ``keys``."""
        raise NotImplementedError

    def step(self, left: pl.Schema, right: pl.Schema, keys: Keys) -> TwoInputStep:
        """Return a new step that knows what it is made for, and loads no other one's state."""
        step = self.make(left, right, keys)
        step.identify(self.fingerprint((left, right), keys))
        return step

    def check(self, left: pl.Schema, right: pl.Schema, keys: Keys, others: Keys) -> pl.Schema:
        """Return ``output``, and blame this operator where it raises."""
        try:
            return self._output(left, right, keys, others)
        except Exception as error:
            blamed = blame(error, self.place)
            raise blamed from blamed.__cause__

    def _output(self, left: pl.Schema, right: pl.Schema, keys: Keys, others: Keys) -> pl.Schema:
        if keys != others:
            raise SchemaError(
                f"{self.name} takes two streams grouped by the same keys, or by none, and these "
                f"are grouped by {list(keys)} and {list(others)}. "
                "Hint: ungroup() both and give the keys in on=."
            )
        return self.output(left, right, keys)

    def make_stage(
        self,
        inputs: Sequence[Meter],
        schemas: tuple[pl.Schema | None, ...] = (None, None),
        clock: Callable[[], float] = float,
    ) -> Stage:
        """Return the stage of this operator in a new run, behind the meters of its inputs.

        ``schemas`` are those of the inputs, as far as the plan knows them.
        """
        from rxtemporal.engine.stage import Stage

        absent = partial(self.make_absent, schemas)
        return Stage(self._check_and_make, self.place, inputs, absent=absent, clock=clock)

    def __call__(
        self, left: Observable[EventBatch], right: Observable[EventBatch]
    ) -> Observable[EventBatch]:
        """Return the observable of this operator's output for two sources."""
        from rxtemporal.reactive.lift import lift

        return lift(self.make_stage, left, right)

    def assume_fields(self, missing: int, known: pl.Schema, keys: Keys) -> pl.Schema:
        """Return the fields of an input (0 or 1) that ends before its fields are known."""
        return known

    def make_absent(
        self, schemas: tuple[pl.Schema | None, ...], missing: int, known: EventBatch
    ) -> EventBatch:
        """Return an empty batch for an input that ends before its first batch."""
        schema = schemas[missing]
        if schema is None:
            schema = self.assume_fields(missing, known.schema, known.keys)
        return EventBatch.empty(schema, MIN_TIME, known.keys)

    def _check_and_make(self, left: EventBatch, right: EventBatch) -> TwoInputStep:
        self._output(left.schema, right.schema, left.keys, right.keys)
        return self.step(left.schema, right.schema, left.keys)


@dataclasses.dataclass(frozen=True)
class PartialOperator:
    """An operator with two inputs, bound to its right input and applied to the left one.

    ``before`` are the operators that the left and the right input pass first, and ``after`` those
    that the output passes.
    """

    operator: TwoInputs
    other: Any
    before: tuple[tuple[Operator, ...], tuple[Operator, ...]] = ((), ())
    after: tuple[Operator, ...] = ()

    def __call__(self, source: Observable[EventBatch]) -> Observable[EventBatch]:
        """Return the observable of the operator's output for this source and the other input."""
        from reactivex import Observable

        if not isinstance(self.other, Observable):
            raise ArgumentError(
                f"{self.operator.name} in a pipe takes another observable of batches, got "
                f"{self.other!r}. Hint: for two Streamables use the method of that name."
            )
        left, right = (Chain(each) for each in self.before)
        return Chain(self.after)(self.operator(left(source), right(self.other)))


@dataclasses.dataclass(frozen=True)
class Chain:
    """A sequence of operators as one value."""

    operators: tuple[Operator, ...]

    def __call__(self, source: Observable[EventBatch]) -> Observable[EventBatch]:
        """Return the observable of the output of all operators for a source."""
        return reduce(lambda stream, operator: operator(stream), self.operators, source)


@dataclasses.dataclass(frozen=True)
class Branch:
    """A function from a stream to a stream, as one value; ``end`` is the operator that follows."""

    name: str
    function: Callable[[Any], Any]
    end: Operator | None = None
    cti_rule = "the branch's"
    holds = "what the branch holds"

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise ArgumentError(
                f"{self.name} takes a function from a stream to a stream, got {self.function!r}"
            )

    def __call__(self, source: Observable[EventBatch]) -> Observable[EventBatch]:
        """Return the observable of the function's output for a source, which is read once."""
        from reactivex import operators as rx_operators

        result = source.pipe(rx_operators.publish(self.function))
        return result if self.end is None else self.end(result)
