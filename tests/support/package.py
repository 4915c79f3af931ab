"""The distributions of a release, as an index shows them.

    python tests/support/package.py FOLDER

copies the files of the repository, makes the links of the README absolute, builds a source
distribution and a wheel into ``FOLDER`` and checks them as an index does. Links to files lead to
the URL ``Source`` of ``setup.cfg``: on an index there are no files beside the README.
"""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
# what a build leaves, and what is no source
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".tox", ".venv", ".hypothesis", ".*_cache", "__pycache__", "build", "dist", "*.egg-info"
)
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")
SOURCE = re.compile(r'(<(?:img|source|a)\b[^>]*?\b(?:src|srcset|href)=")(?!\w+:|#)([^"]+)')


def read_source() -> str:
    """Return the URL of the repository."""
    settings = configparser.ConfigParser()
    settings.read(ROOT / "setup.cfg")
    lines = settings["metadata"]["project_urls"].strip().splitlines()
    urls = dict(map(str.strip, line.split("=", 1)) for line in lines)
    return urls["Source"].rstrip("/")


def make_absolute(text: str, source: str) -> str:
    """Return a README with absolute links: to pages as they are shown, to pictures as they are.

    >>> make_absolute("[a](docs/a.md) ![p](docs/p.png) [w](https://w)", "https://s")
    '[a](https://s/blob/main/docs/a.md) ![p](https://s/raw/main/docs/p.png) [w](https://w)'
    """

    def replace(found: re.Match[str]) -> str:
        image, title, path = found.groups()
        kind = "raw" if image else "blob"
        return f"{image}[{title}]({source}/{kind}/main/{path})"

    def replace_tag(found: re.Match[str]) -> str:
        kind = "blob" if found[1].startswith("<a") else "raw"
        return f"{found[1]}{source}/{kind}/main/{found[2]}"

    return SOURCE.sub(replace_tag, LINK.sub(replace, text))


def build(folder: Path) -> list[Path]:
    """Build source distribution and wheel into a folder; return their paths."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "rxtemporal"
        shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
        readme = copy / "README.md"
        readme.write_text(make_absolute(readme.read_text("utf-8"), read_source()), "utf-8")
        command = [sys.executable, "-m", "build", "--outdir", str(folder), str(copy)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return sorted(folder.iterdir())


if __name__ == "__main__":
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    made = map(str, build(target))
    sys.exit(subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *made]).returncode)
