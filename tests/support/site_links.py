"""Check of a built site: every link inside it names a page, and every anchor an element of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ATTRIBUTES = {"href", "src"}
# elements through which a page fetches something when it opens
FETCHES = {"link", "script", "img", "iframe", "source", "video", "audio"}


class PageReader(HTMLParser):
    """Reader of one page: its links, with the element that has them, and its anchors."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, str]] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the links and anchors of an element."""
        for name, value in attrs:
            if value and name in ATTRIBUTES:
                self.links.append((tag, value))
            if value and (name == "id" or (tag == "a" and name == "name")):
                self.anchors.add(value)


@cache
def read(page: Path) -> PageReader:
    """Return the links and anchors of a page."""
    reader = PageReader()
    reader.feed(page.read_text("utf-8"))
    return reader


def problems_of(page: Path, site: Path) -> Iterator[str]:
    """Yield a sentence for each link of a page that leads nowhere or that fetches from a host."""
    for tag, link in read(page).links:
        parts = urlsplit(link)
        if parts.scheme in ("http", "https") or parts.netloc:
            if tag in FETCHES and not link.startswith("data:"):
                yield f"{page.relative_to(site)} fetches {link}"
            continue
        if parts.scheme:
            continue
        target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        if target.is_dir():
            target /= "index.html"
        if not target.exists():
            yield f"{page.relative_to(site)} links {link}: there is no such file"
        elif parts.fragment and target.suffix == ".html":
            # "__…" are made by scripts of the theme
            anchor = unquote(parts.fragment)
            if anchor not in read(target).anchors and not anchor.startswith("__"):
                yield f"{page.relative_to(site)} links {link}: there is no such anchor"


def find_broken_links(site: Path) -> list[str]:
    """Return a sentence for each link of a site that leads nowhere or that fetches from a host."""
    # the page for what is not found has links from the root of a server
    pages = [page for page in sorted(site.rglob("*.html")) if page.name != "404.html"]
    return [problem for page in pages for problem in problems_of(page, site)]
