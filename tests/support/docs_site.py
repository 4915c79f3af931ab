"""Builder of the documentation site: ``python tests/support/docs_site.py FOLDER``.

The pages in ``docs`` are read on their own as well, so their links are those of the repository.
This copies them with the README, the change log and the samples, turns links that leave ``docs``
into links of the site, lets zensical build ``FOLDER/site`` strictly, and checks every link of it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from site_links import find_broken_links

ROOT = Path(__file__).resolve().parents[2]
SUPPORT = Path(__file__).parent
# files of the repository that are pages of the site
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
    "tests/README.md": "tests.md",
}
FOLDERS = {"samples": "samples.md", "benchmarks": "benchmarks.md"}
# pages of the site that are not files of ``docs``
MADE = [*PAGES.values(), "samples.md"]
LINK = re.compile(
    r"(?:(?<=\[)(?P<text>[\w./-]+\.md))?\]\((?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)"
)
TITLE = re.compile(r"^# (.+)$", re.M)
# what follows the language of a block tells our tests which programs it needs
FENCE = re.compile(r"^```python [^\n]+$", re.M)


def place(target: Path) -> str | None:
    """Return the path of a file of the repository in the site, or None if it has none."""
    path = target.relative_to(ROOT)
    if path.parts[0] == "docs":
        return path.relative_to("docs").as_posix()
    if path.parts[0] == "samples" and path.suffix == ".py":
        return "samples.md"
    return PAGES.get(path.as_posix()) or FOLDERS.get(path.as_posix())


def rewrite(text: str, source: Path) -> str:
    """Return the text of a page with the links of the site."""
    here = Path(place(source) or "").parent

    def replace(found: re.Match[str]) -> str:
        if "://" in found["path"]:
            return found[0]
        target = (source.parent / found["path"]).resolve()
        there = place(target) if target.is_relative_to(ROOT) else None
        if there is None:
            return found[0]
        # a page named by its file is named by its title on the site
        title = TITLE.search(target.read_text("utf-8")) if found["text"] else None
        text = title[1] if title else found["text"] or ""
        return f"{text}]({'../' * len(here.parts)}{there}{found['anchor'] or ''})"

    return FENCE.sub("```python", LINK.sub(replace, text))


def samples() -> str:
    """Return the page with the samples: what each does, then its code."""
    lines = ["# Samples", "", "Each of these programs runs with `python samples/NAME.py`.", ""]
    for path in sorted((ROOT / "samples").glob("*.py")):
        lines += [f"## {path.name}", "", "```python", path.read_text("utf-8").rstrip(), "```", ""]
    return "\n".join(lines)


def stage(folder: Path) -> None:
    """Copy the pages, the configuration and the package into a folder for zensical."""
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages, ignore=shutil.ignore_patterns("zensical.toml"))
    sources = [ROOT / name for name in PAGES] + sorted((ROOT / "docs").rglob("*.md"))
    for source in sources:
        target = pages / str(place(source))
        target.write_text(rewrite(source.read_text("utf-8"), source), "utf-8")
    (pages / "samples.md").write_text(samples(), "utf-8")
    shutil.copy(ROOT / "docs" / "zensical.toml", folder)
    shutil.copy(SUPPORT / "doctest_fences.py", folder)
    shutil.copytree(
        ROOT / "rxtemporal",
        folder / "rxtemporal",
        ignore=shutil.ignore_patterns("__pycache__"),
        dirs_exist_ok=True,
    )


def build(folder: Path) -> list[str]:
    """Build ``folder/site``; return a sentence for each link of it that leads nowhere."""
    stage(folder)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    subprocess.run([*command, "-f", str(folder / "zensical.toml")], check=True, cwd=folder)
    return find_broken_links(folder / "site")


if __name__ == "__main__":
    broken = build(Path(sys.argv[1]).resolve())
    print(*broken, sep="\n")
    sys.exit(bool(broken))
