"""The documentation as a site: where links lead, and the check of a built site."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import docs_site
import pytest
import site_links

import rxtemporal as rxt
from rxtemporal import errors
from rxtemporal import operators as ops

DESCRIBED = re.compile(r"^::: ([\w.]+)$", re.M)
REFERENCE = docs_site.ROOT / "docs" / "reference"
# their pages describe all that they have
WHOLE = {f"rxtemporal.{name}" for name in ("agg", "errors", "pattern", "plots", "spark", "testing")}


def test_each_public_name_stands_once_in_the_reference() -> None:
    """Names of ``rxtemporal`` and the operators are listed on one page each, errors with theirs."""
    listed = [
        name
        for page in REFERENCE.glob("*.md")
        for name in DESCRIBED.findall(page.read_text("utf-8"))
    ]
    modules = {"agg", "errors", "operators", "pattern", "plots", "testing"}
    public = [name for name in rxt.__all__ if name not in modules]
    names = {f"rxtemporal.{name}" for name in public if not hasattr(errors, name)}
    functions = {f"{getattr(ops, name).__module__}.{name}" for name in ops.__all__}
    assert sorted(listed) == sorted(WHOLE | names | functions)


@pytest.mark.parametrize("name", sorted(WHOLE - {"rxtemporal.spark"}))
def test_modules_of_the_reference_exist(name: str) -> None:
    """A page describes a module that users import."""
    assert importlib.import_module(name).__doc__


def test_links_that_leave_the_docs_lead_to_pages_of_the_site() -> None:
    """A page is read in the repository too; on the site its links name the pages made of files."""
    text = "[c](../CHANGELOG.md) [s](../samples/joins.py) [e](events.md#time) [w](https://a.b/c.md)"
    rewritten = docs_site.rewrite(text, docs_site.ROOT / "docs" / "queries.md")
    assert rewritten == (
        "[c](changelog.md) [s](samples.md) [e](events.md#time) [w](https://a.b/c.md)"
    )


def test_a_page_named_by_its_file_is_named_by_its_title() -> None:
    """In the repository ``docs/events.md`` says where to look, on the site its title does."""
    rewritten = docs_site.rewrite("[docs/events.md](docs/events.md)", docs_site.ROOT / "README.md")
    assert rewritten == "[Events](events.md)"


def test_the_readme_is_the_first_page() -> None:
    """Its links to the docs are those of pages beside it."""
    text = "[e](docs/events.md) and [b](benchmarks)"
    rewritten = docs_site.rewrite(text, docs_site.ROOT / "README.md")
    assert rewritten == "[e](events.md) and [b](benchmarks.md)"


def test_a_built_site_is_searched_for_links_that_lead_nowhere(tmp_path: Path) -> None:
    """A missing file, a missing anchor and a file of a host are each told; good links are not."""
    (tmp_path / "b.html").write_text('<h1 id="here">B</h1>')
    (tmp_path / "a.html").write_text(
        '<script src="https://cdn.test/x.js"></script>'
        '<a href="b.html#here">good</a> <a href="https://a.test/">out</a>'
        '<a href="c.html">no file</a> <a href="b.html#there">no anchor</a>'
    )
    assert site_links.find_broken_links(tmp_path) == [
        "a.html fetches https://cdn.test/x.js",
        "a.html links c.html: there is no such file",
        "a.html links b.html#there: there is no such anchor",
    ]
