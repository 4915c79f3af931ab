"""The operators as a whole: each is a method and a value, is described, and explains itself."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any

import pytest
from algebra import PAGE, TABLES, check_operators, generate
from child_process import environment
from operator_plans import OF_OTHERS, PLANS, SCHEMA

import rxtemporal as rxt
from rxtemporal import operators as ops

# methods of a stream that make no stream: what it is, and how its results are had
NO_OPERATORS = {
    "collect",
    "debug",
    "explain",
    "head",
    "keys",
    "late_events",
    "named",
    "pipe",
    "run",
    "schema",
    "show",
    "subscribe",
    "to_arrow",
    "to_async",
    "to_batches",
    "to_events",
    "to_observable",
    "to_pandas",
    "to_polars",
}


def parameters(function: Any) -> list[tuple[str, Any]]:
    """Return a function's parameters with their defaults, without the first one."""
    taken = inspect.signature(function).parameters.values()
    return [(each.name, each.default) for each in taken if each.name != "self"]


def public(cls: type) -> set[str]:
    """Return the public names of a class."""
    return {name for name in dir(cls) if not name.startswith("_")}


def test_every_operator_is_a_method_and_every_method_an_operator() -> None:
    """Every operator for a pipe is a method of streams, and the other way round."""
    assert public(rxt.Streamable) - NO_OPERATORS == set(ops.__all__)


@pytest.mark.parametrize("name", sorted(set(ops.__all__)))
def test_a_method_is_described_by_its_operator(name: str) -> None:
    """Arguments and docstring of the method are the operator's, on the class and on a stream."""
    operator, method = getattr(ops, name), getattr(rxt.Streamable, name)
    assert parameters(method) == parameters(operator)
    assert parameters(getattr(rxt.from_events([]), name)) == parameters(operator)
    assert inspect.getdoc(method) == inspect.getdoc(operator)
    assert name in inspect.getsource(rxt.Streamable)


@pytest.mark.parametrize("name", sorted(set(ops.__all__)))
def test_an_operator_describes_its_ctis(name: str) -> None:
    """The docstring of each operator describes the output CTI."""
    assert "CTI" in (inspect.getdoc(getattr(ops, name)) or "")


def test_every_operator_is_explained_here() -> None:
    """The table of plans has every operator."""
    told = "the table of the laws has no case of an operator, or one of an unknown operator"
    assert set(PLANS) == set(ops.__all__) - OF_OTHERS, told


@pytest.mark.parametrize("known", [True, False], ids=["known fields", "unknown fields"])
@pytest.mark.parametrize("name", PLANS)
def test_an_operator_explains_itself(name: str, known: bool) -> None:
    """The plan names the operator, then its CTI rule and what it holds, and ends at the source."""
    schema = SCHEMA if known else None
    plan = PLANS[name](rxt.from_events([], schema=schema, name="readings")).explain()
    operator, rule, *_ = plan.split("\n")
    assert operator.split(":")[0].split(",")[0].partition("()")[0] == name
    assert rule.startswith("  | CTI: ")
    assert "; holds " in rule
    assert "source 'readings': " in plan
    assert "object at" not in plan


def test_composing_and_explaining_load_no_kernels() -> None:
    """Kernels are loaded when a query runs; composing does not wait for them."""
    code = (
        "import sys, rxtemporal as rxt, operator_plans as here\n"
        "for plan in here.PLANS.values():\n"
        "    plan(rxt.from_events([], schema=here.SCHEMA)).explain()\n"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


def test_the_page_of_the_algebra_has_every_operator() -> None:
    """Each operator is in one table of docs/algebra.md."""
    listed = sorted(name for names in TABLES.values() for name in names)
    assert listed == sorted(ops.__all__), "docs/zensical.toml lists the pages of the operators"


def test_an_operator_without_a_plan_or_a_table_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message for a new operator names the missing entry and its file."""
    monkeypatch.setitem(TABLES, "one stream", TABLES["one stream"][1:])
    with pytest.raises(LookupError, match=r"where stands in 0 tables.*Hint: add its page"):
        check_operators()
    monkeypatch.delitem(PLANS, "where")
    with pytest.raises(LookupError, match=r"where has no plan.*Hint: add a case"):
        check_operators()


def test_the_page_of_the_algebra_is_up_to_date() -> None:
    """The tables are generated from signatures, docstrings, CTI rules and held rows."""
    page = PAGE.read_text("utf-8")
    assert page == generate(page), "make the tables anew: python tests/support/algebra.py"
