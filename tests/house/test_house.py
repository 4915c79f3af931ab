"""The house itself: public names, what importing loads, logging, where things are kept."""

from __future__ import annotations

import configparser
import importlib
import importlib.metadata
import importlib.resources
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import rxtemporal as rxt
from rxtemporal import errors
from rxtemporal.operators.windows.plan import Windowed

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "rxtemporal"
MODULES = sorted(PACKAGE.rglob("*.py"))

PUBLIC = [
    "ARRIVAL",
    "INCREASING_START_TIME",
    "MAX_TIME",
    "MIN_TIME",
    "STRICTLY_INCREASING_START_TIME",
    "TICK",
    "AdapterAdvanceTimeSettings",
    "AdvanceTimeError",
    "AdvanceTimeGenerationSettings",
    "AdvanceTimeImportSettings",
    "AdvanceTimePolicy",
    "AdvanceTimeSettings",
    "Application",
    "AppendFile",
    "ArgumentError",
    "ArrowIpc",
    "BindingError",
    "CheckpointError",
    "Collect",
    "Cti",
    "CtiSynchronizingSubject",
    "CtiSynchronizingSubjectAlternate",
    "CtiViolationError",
    "Cursor",
    "DeltaTable",
    "EdgeEvent",
    "EdgeType",
    "EventBatch",
    "EventError",
    "EventKind",
    "EventShape",
    "Explanation",
    "Extra",
    "File",
    "HandOff",
    "Heartbeat",
    "Http",
    "IcebergTable",
    "IntervalEvent",
    "JavaError",
    "JsonLines",
    "KafkaTopic",
    "LateEvent",
    "LateReason",
    "MqttTopic",
    "PointEvent",
    "ParquetFolder",
    "PostgresTable",
    "Print",
    "Process",
    "ProcessEndedError",
    "PushInput",
    "PushSource",
    "PushStats",
    "QueryBinder",
    "Rejected",
    "Rejects",
    "RxTemporalError",
    "SchemaError",
    "Sink",
    "Source",
    "SqliteTable",
    "SourceError",
    "SpoolError",
    "StoppedError",
    "Streamable",
    "TransformSubject",
    "UnboundedWindowError",
    "Verdict",
    "WhenAhead",
    "WhenFull",
    "WindowOutput",
    "adapters",
    "agg",
    "at_speed",
    "end",
    "errors",
    "from_arrow",
    "from_async",
    "from_kafka",
    "from_events",
    "from_mqtt",
    "from_observable",
    "from_pandas",
    "from_polars",
    "from_source",
    "make_batch",
    "operators",
    "pattern",
    "plots",
    "read_csv",
    "read_json",
    "read_parquet",
    "reference",
    "replay",
    "start",
    "testing",
    "ticks",
    "to_datetime",
    "why",
    "why_not",
]
AGGREGATES = [
    "Aggregate",
    "TimeSensitiveAggregate",
    "UserDefinedAggregate",
    "approx_count_distinct",
    "at_end",
    "at_start",
    "avg",
    "changes",
    "count",
    "count_distinct",
    "coverage",
    "duration",
    "expr",
    "first",
    "increase",
    "integral",
    "last",
    "max",
    "mean",
    "min",
    "quantile",
    "rate",
    "resets",
    "std",
    "sum",
    "time_mean",
    "var",
]
PATTERN = [
    "count",
    "first",
    "last",
    "match_start",
    "max",
    "mean",
    "min",
    "prev",
    "sum",
    "variable",
]
TESTING = [
    "Delays",
    "Recorder",
    "Rehearsal",
    "Row",
    "Stepper",
    "assert_same_history",
    "check_laws",
    "find_clock_losses",
    "find_delays",
    "history",
    "hot",
    "rehearse",
    "show",
    "show_events",
    "table",
]
COMPOSED = (
    "rxtemporal.from_events([], schema={'k': str, 'x': int}).group_by('k').tumbling_window(5)"
    ".aggregate(n=rxtemporal.agg.count()).explain()"
)


def run(code: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process of its own."""
    return subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )


def configuration() -> configparser.ConfigParser:
    """What setup.cfg says."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", "utf-8")
    return parser


def texts() -> Iterator[tuple[Path, str]]:
    """Every text file of the project outside of tests, and what is in it."""
    folders = [ROOT / name for name in ("rxtemporal", "docs", "samples", "benchmarks", ".ci")]
    files = [file for folder in folders for file in folder.rglob("*")]
    for file in [*files, *(file for file in ROOT.iterdir() if file.name != ".git")]:
        built = {"__pycache__", "results", "data"} & set(file.relative_to(ROOT).parts[1:])
        if file.is_file() and not built and not file.name.startswith(".coverage"):
            try:
                yield file, file.read_text("utf-8")
            except UnicodeDecodeError:
                continue


def test_no_test_module_imports_from_another() -> None:
    """Tests share modules of tests/support; a test module stands for itself."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    tests = {path.stem for path in files if path.stem.startswith("test_")}
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in re.findall(
            r"^\s*(?:from|import)\s+(?:\w+\.)*(test_\w+)", path.read_text("utf-8"), re.M
        )
        if name in tests
    ]
    assert found == []


# Names ------------------------------------------------------------------------------------------


def test_the_public_names_are_these() -> None:
    """What users may import from the package stands here, to the letter.

    The operators are those that have a page (``test_operator_pages.py``).
    """
    assert sorted(rxt.__all__) == sorted(PUBLIC)
    assert sorted(rxt.agg.__all__) == AGGREGATES
    assert sorted(rxt.pattern.__all__) == PATTERN
    assert sorted(importlib.import_module("rxtemporal.testing").__all__) == TESTING


def test_each_public_name_is_there_and_described() -> None:
    """Each can be imported, and what is not a constant has a docstring."""
    bare = [name for name in PUBLIC if not (name.isupper() or inspect.getdoc(getattr(rxt, name)))]
    assert bare == []


def test_the_public_methods_of_streams_are_described() -> None:
    """Each public method and property of what users hold has a docstring."""
    described = (rxt.Streamable, Windowed, rxt.Process, rxt.EventBatch, rxt.CtiSynchronizingSubject)
    for cls in described:
        for name, value in inspect.getmembers(cls):
            if not name.startswith("_") and value.__class__.__name__ in ("function", "property"):
                assert inspect.getdoc(value), f"{cls.__name__}.{name}"


def test_only_what_users_import_has_a_list_of_names() -> None:
    """``__all__`` stands where users import, and in the packages that hand names on."""
    listed = {
        str(path.relative_to(PACKAGE))
        for path in MODULES
        if re.search(r"^__all__ = ", path.read_text("utf-8"), re.M)
    }
    public = {"agg.py", "errors.py", "pattern.py", "query/adapters.py"}
    assert {name for name in listed if not name.endswith("__init__.py")} == public


def test_pages_have_no_placeholders() -> None:
    """Each figure of a page has been filled in."""
    pages = [
        page for folder in (ROOT, ROOT / "docs", ROOT / "tests") for page in folder.glob("*.md")
    ]
    assert len(pages) > 10
    found = [p.name for p in pages if re.search(r"\bTIME_[A-Z]+", p.read_text("utf-8"))]
    assert found == []


def test_the_tree_of_errors_is_the_one_drawn() -> None:
    """The docstring of the errors module draws each error with its bases, and no other."""
    drawn = dict(
        re.findall(r"(?:├──|└──) (\w+)(?: \(also (\w+)\))?", errors.__doc__ or ""),
    )
    there = {
        cls.__name__: "ValueError" if issubclass(cls, ValueError) else ""
        for cls in vars(errors).values()
        if isinstance(cls, type) and issubclass(cls, rxt.RxTemporalError)
    }
    assert drawn == there
    assert all(cls in errors.__all__ for cls in there)
    above = {0: Exception}
    for indent, name in re.findall(
        r"^( +(?:│ +)?)[├└]── (\w+)", errors.__doc__ or "", re.MULTILINE
    ):
        error = getattr(errors, name)
        depth = max(each for each in above if each < len(indent))
        assert [base for base in error.__bases__ if base is not ValueError] == [above[depth]]
        above = {each: cls for each, cls in above.items() if each < len(indent)}
        above[len(indent)] = error


def test_the_errors_that_users_catch_are_at_the_top() -> None:
    """Each error of the tree is a public name of the package."""
    there = {name for name in errors.__all__ if name.endswith("Error")}
    assert there == {name for name in PUBLIC if name.endswith("Error")}


# Importing and logging --------------------------------------------------------------------------


LOADED = {
    "": set[str](),
    "rxtemporal.PointEvent": {"core", "errors"},
    "rxtemporal.Streamable": {
        "core", "engine", "errors", "ingress", "operators", "query", "sinks", "text",
    },
    "rxtemporal.Application('house')": {
        "core", "engine", "errors", "ingress", "operators", "query", "sinks", "text",
    },
    COMPOSED: {"agg", "core", "engine", "errors", "ingress", "operators", "query", "sinks", "text"},
}  # fmt: skip


@pytest.mark.parametrize("use", LOADED, ids=["import", "event", "stream", "application", "query"])
def test_a_name_loads_what_it_needs(use: str) -> None:
    """Importing loads nothing else; composing a query loads descriptions.

    That is one module for each operator, and below 70 others. Steps and kernels are loaded by the
    first query that needs them.
    """
    done = run(f"import sys, rxtemporal\n{use}\nprint(*sys.modules)")
    loaded = [name for name in done.stdout.split() if name.startswith("rxtemporal.")]
    of_operator = re.compile(r"rxtemporal\.operators\.\w+(\.plan)?")
    assert len([name for name in loaded if not of_operator.fullmatch(name)]) < 70
    assert {name.split(".")[1] for name in loaded} <= LOADED[use]
    assert "numba" not in done.stdout.split()
    parts = [name.rpartition(".")[2] for name in loaded if name.startswith("rxtemporal.operators.")]
    assert {"step", "bounds", "kernel", "kernels"}.isdisjoint(parts)


@pytest.mark.parametrize("heavy", ["pyspark", "numba", "matplotlib", "pandas", "pyarrow"])
def test_importing_loads_nothing_that_is_not_needed(heavy: str) -> None:
    """What only some users need is loaded when they use it."""
    done = run(f"import sys, rxtemporal; print({heavy!r} in sys.modules)")
    assert done.stdout == "False\n"


def test_a_service_that_embeds_a_subject_never_loads_numba() -> None:
    """Subjects work without compiled code."""
    code = (
        "import sys, rxtemporal as rxt\n"
        "subject = rxt.CtiSynchronizingSubjectAlternate.create_point(0)\n"
        "subject.subscribe(lambda event: None)\n"
        "subject.on_next(rxt.PointEvent(1, 'a'))\n"
        "subject.on_completed()\n"
        "print('numba' in sys.modules)"
    )
    assert run(code).stdout == "False\n"


RAISING = """
import rxtemporal as rxt
from rxtemporal import Cti, PointEvent
def bad(event):
    raise RuntimeError("a subscriber's own")
for kind in rxt.CtiSynchronizingSubject, rxt.CtiSynchronizingSubjectAlternate:
    subject = kind.create_point(0)
    subject.subscribe(bad)
    subject.subscribe(bad, bad, bad)
    subject.input("a").on_error(ValueError("a source's own"))
    subject.on_next(PointEvent(1, "a"))
    subject.on_error(ValueError("nobody listens"))
"""


@pytest.mark.parametrize("first", ["", "import logging; logging.basicConfig(level=logging.INFO)\n"])
def test_a_host_sees_what_failed(first: str) -> None:
    """Warnings and errors are printed with their tracebacks, also where nobody configures logging.

    A library prints nothing to standard output.
    """
    done = run(first + RAISING)
    assert done.stdout == ""
    assert "a subscriber raised; the others are not affected" in done.stderr
    assert done.stderr.count("RuntimeError: a subscriber's own") == 6
    assert "ValueError('nobody listens')" in done.stderr
    assert "a source failed; the others go on" in done.stderr
    assert ("rxtemporal.reactive.subscriber" in done.stderr) == bool(first)


def test_a_host_may_silence_the_library() -> None:
    """Standard logging decides, as for every library."""
    quiet = "import logging; logging.getLogger('rxtemporal').addHandler(logging.NullHandler())\n"
    done = run(quiet + RAISING)
    assert (done.stdout, done.stderr) == ("", "")


# Where things are kept --------------------------------------------------------------------------


def test_metadata_has_one_home() -> None:
    """A partial [project] table would make setuptools ignore setup.cfg, so there is none."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert "project" not in tomllib.load(file)
    assert not (ROOT / "setup.py").exists()
    assert configuration()["metadata"]["name"] == "rxtemporal"


def test_the_version_is_said_twice_and_the_same() -> None:
    """The package and its metadata, in the checkout and as installed, agree."""
    assert configuration()["metadata"]["version"] == rxt.__version__
    assert importlib.metadata.version("rxtemporal") == rxt.__version__


@pytest.mark.parametrize(
    ("package", "file"),
    [
        ("rxtemporal", "py.typed"),
        ("rxtemporal", "__init__.pyi"),
        ("rxtemporal.cli.demo", "data/flights-2013-01.parquet"),
        ("rxtemporal.cli.demo", "data/weather-2013-01.parquet"),
    ],
)
def test_what_is_installed_brings_its_data(package: str, file: str) -> None:
    """The marker for type checkers and the demonstration's data are packaged, and there."""
    assert importlib.resources.files(package).joinpath(file).is_file()
    patterns = configuration()["options.package_data"][package].split()
    assert any(Path(file).match(pattern) for pattern in patterns)


def test_every_folder_of_the_package_is_a_package() -> None:
    """find: takes folders with an __init__, so each folder with modules has one."""
    assert {path.parent for path in MODULES} == {
        path.parent for path in PACKAGE.rglob("__init__.py")
    }


def test_the_top_level_is_the_promised_one() -> None:
    """Tests, samples, docs, benchmarks and the door for all checks are where one looks for them."""
    for name in ("setup.cfg", "pyproject.toml", "tox.ini", "README.md", "CHANGELOG.md", ".ci/run"):
        assert (ROOT / name).is_file(), name
    for name in ("rxtemporal", "tests", "samples", "docs", "benchmarks"):
        assert (ROOT / name).is_dir(), name


def test_nothing_names_a_place_on_somebodys_machine() -> None:
    """No file of the project knows an absolute path of where it was written."""
    somewhere = re.compile(r"(?<![\w.])/(?:wor" + r"k|roo" + r"t|home)/|\.\./shar" + "ed")
    found = [str(path.relative_to(ROOT)) for path, text in texts() if somewhere.search(text)]
    assert found == []


def test_the_readme_begins_with_two_commands_of_one_line() -> None:
    """Seeing it work and running the tests are one line each, to be copied whole."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)
    demo, tests = blocks[:2]
    assert (demo.count("\n"), tests.count("\n")) == (1, 1)
    assert demo.rstrip().endswith("rxtemporal demo")
    assert tests.rstrip().endswith("tox")
