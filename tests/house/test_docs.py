"""Every code block of the README and the docs runs, and so does every docstring's example."""

from __future__ import annotations

import ast
import configparser
import contextlib
import doctest
import importlib
import io
import re
import runpy
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import docs_site
import pytest
from needs import need_java, skip_or_fail

import rxtemporal

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
NAMES = [page.relative_to(ROOT).with_suffix("").as_posix() for page in PAGES]
PACKAGE = Path(rxtemporal.__file__).parent

FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)#]+)(?:#[^)]*)?\)")
EXAMPLE = re.compile(r"^\s*>>> ", re.M)


class Block(NamedTuple):
    """A fenced block of a page: what follows the fence, its text, and the line it begins at."""

    kind: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """Return a page's fenced blocks, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(match["kind"].strip(), match["text"], text.count("\n", 0, match.start("text")))
        for match in FENCE.finditer(text)
    ]


def run(page: Path, kinds: set[str]) -> None:
    """Run a page's blocks of these kinds, and compare what they print with what the page says."""
    names: dict[str, Any] = {"__name__": "__main__"}
    printed: str | None = None
    for block in blocks(page):
        if block.kind in kinds:
            # as many empty lines before it as it has in the page, so that tracebacks name the line
            code = compile("\n" * block.line + block.text, str(page), "exec", dont_inherit=True)
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(code, names)
            printed = out.getvalue()
        elif block.kind == "text" and printed is not None:
            assert printed == block.text, f"{page.name}, line {block.line}"
        elif block.kind.startswith("python"):
            printed = None


@pytest.fixture(autouse=True)
def _aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_code_of_a_page_runs(page: Path) -> None:
    """The blocks of a page run one after the other and print what the page says."""
    run(page, {"python"})


WITH_JAVA = [page for page in PAGES if any(block.kind == "python java" for block in blocks(page))]


@pytest.mark.full  # the tests of `spark` are shorter, and say more
@pytest.mark.java
@pytest.mark.parametrize("page", WITH_JAVA, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs_with_spark(page: Path) -> None:
    """The blocks that need Spark run among the others."""
    need_java()
    run(page, {"python", "python java"})


def test_no_block_is_of_an_unknown_kind() -> None:
    """A block is code that runs, its output, a command, a file of the samples, or a listing."""
    kinds = {block.kind for page in PAGES for block in blocks(page)}
    assert kinds <= {"python", "python java", "text", "sh", "", "py", "js", "c"}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    """Each relative link names a file or folder of the project."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    links = [link for link in LINK.findall(text) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_page_is_linked_from_the_readme() -> None:
    """The README links each page of the docs that is in no folder of its own."""
    linked = set(LINK.findall((ROOT / "README.md").read_text(encoding="utf-8")))
    assert {f"docs/{page.name}" for page in DOCS.glob("*.md")} <= linked


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("epoch milliseconds", "sources.md"),
        ("bearer token", "operations.md"),
        ("device silent alert", "cookbook.md"),
        ("systemd unit", "deploy.md"),
        ("backup", "deploy.md"),
        ("device python", "clients.md"),
        ("delta iceberg", "sinks.md"),
        ("kubernetes", "spark-cluster.md"),
        ("spark cluster yarn", "spark-cluster.md"),
    ],
)
def test_what_people_search_for_is_in_headings(words: str, page: str) -> None:
    """The search of the site ranks headings first, with the title of their page."""
    text = FENCE.sub("", (DOCS / page).read_text(encoding="utf-8")).lower()
    title, *headings = re.findall(r"^#+ (.+)$", text, re.M)
    shown = [title, *(f"{title} {each}" for each in headings)]
    assert any(all(word in each for word in words.split()) for each in shown), headings


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """``docs/zensical.toml`` lists each page of the docs once."""
    configuration = tomllib.loads((DOCS / "zensical.toml").read_text("utf-8"))
    listed = list(pages_of(configuration["project"]["nav"]))
    assert sorted(set(listed)) == sorted(listed)
    written = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert written - set(listed) == set()
    assert {page for page in listed if not (DOCS / page).exists()} <= set(docs_site.MADE)


def pages_of(entries: list[dict[str, Any]]) -> Iterator[str]:
    """The pages that a navigation lists, those of its sections included."""
    for entry in entries:
        for value in entry.values():
            yield from [value] if isinstance(value, str) else pages_of(value)


def test_the_page_on_nexmark_has_the_queries_of_the_benchmark() -> None:
    """What is measured is what the page shows, in SQL and here."""
    page = (DOCS / "nexmark.md").read_text("utf-8")
    sql = runpy.run_path(str(ROOT / "benchmarks/nexmark_sql.py"))["SQL"]
    assert [name for name, text in sql.items() if text.strip() not in page] == []
    source = (ROOT / "benchmarks/nexmark_queries.py").read_text("utf-8")
    functions = [each for each in ast.parse(source).body if isinstance(each, ast.FunctionDef)]
    assert {each.name for each in functions} >= sql.keys()
    last = {each.name: ast.get_source_segment(source, each.body[-1]) or "" for each in functions}
    assert [name for name, text in last.items() if text not in page] == []


def modules() -> Iterator[str]:
    """The names of the modules whose docstrings hold examples."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if EXAMPLE.search(path.read_text(encoding="utf-8")):
            parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("name", list(modules()))
def test_the_examples_of_a_module_run(name: str) -> None:
    """Every example in a module's docstrings gives what it says; none is lost."""
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        needed = str(error.name).partition(".")[0]
        skip_or_fail("java" if needed == "pyspark" else needed, f"{name} needs {needed}")
    ran = doctest.testmod(module)
    written = Path(str(module.__file__)).read_text(encoding="utf-8")
    assert (ran.failed, ran.attempted) == (0, len(EXAMPLE.findall(written)))


def test_the_picture_of_the_layers_is_that_of_the_contract() -> None:
    """Each layer of setup.cfg is drawn, in the same order, and described in the page's table."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", "utf-8")
    lines = parser["importlinter:contract:layers"]["layers"].split("\n")
    layers = [{name.strip() for name in line.split("|")} for line in lines if line.strip()]
    drawn = re.findall(
        r'font-weight="bold"[^>]*>(\w+)<', (ROOT / "docs/layers.svg").read_text("utf-8")
    )
    expected = [name for layer in layers for name in sorted(layer, key=drawn.index)]
    assert drawn == expected
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    assert set(re.findall(r"^\| `(\w+)`(?:, private)? \|", page, re.M)) == set(expected)


@pytest.mark.parametrize("name", ["architecture", "design"])
def test_the_files_that_a_page_for_contributors_names_exist(name: str) -> None:
    """Each path of a Python file on the page is one of the project."""
    page = (DOCS / f"{name}.md").read_text("utf-8")
    named = set(re.findall(r"`([\w/]+/[\w/]+\.pyi?)`", page))
    named = {each for each in named if not each.endswith("throttle.py")}  # what a reader may add
    roots = (ROOT, ROOT / "rxtemporal")
    assert [name for name in sorted(named) if not any((r / name).exists() for r in roots)] == []


def test_the_modules_in_the_picture_of_the_path_exist() -> None:
    """Each place in the picture is a module or a package."""
    drawn = (ROOT / "docs/event-way.svg").read_text("utf-8")
    lines = re.findall(r'font-size="11.5" fill="#6b7280"[^>]*>(\w+[/,][^<]*)<', drawn)
    places = [PACKAGE / each for line in lines for each in line.split(", ")]
    assert len(lines) == 12
    assert [at for at in places if not (at.exists() or at.with_suffix(".py").exists())] == []
