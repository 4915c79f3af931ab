"""The documentation as a site: where links lead, and the check of a built site."""

from __future__ import annotations

from pathlib import Path

import docs_site
import site_links


def test_links_that_leave_the_docs_lead_to_pages_of_the_site() -> None:
    """A page is read in the repository too; on the site its links name the pages made of files."""
    text = "[c](../CHANGELOG.md) [s](../samples/joins.py) [e](events.md#time) [w](https://a.b/c.md)"
    rewritten = docs_site.rewrite(text, docs_site.ROOT / "docs" / "queries.md")
    assert rewritten == (
        "[c](changelog.md) [s](samples.md) [e](events.md#time) [w](https://a.b/c.md)"
    )


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
