"""What is packed: the files of the wheel, which is made from the source distribution."""

from __future__ import annotations

import re
import tarfile
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from package import ROOT, build

pytest.importorskip("build", reason="the build package is not installed")
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a source distribution, and the wheel made from it."""
    folder = tmp_path_factory.mktemp("packed")
    build(folder)
    return folder


def test_the_packages_bring_every_file_of_the_library(packed: Path) -> None:
    """Modules, types, assets of the pages and data are in both packages, and the licence."""
    with ZipFile(next(packed.glob("*.whl"))) as wheel:
        wheeled = set(wheel.namelist())
    with tarfile.open(next(packed.glob("*.tar.gz"))) as archive:
        sourced = {name.partition("/")[2] for name in archive.getnames()}
    files = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "rxtemporal").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files - wheeled == set()
    assert files - sourced == set()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheeled)
    assert "LICENSE" in sourced


def test_the_metadata_name_author_and_licence(packed: Path) -> None:
    """An index shows who made it, and the licence as an SPDX expression."""
    with ZipFile(next(packed.glob("*.whl"))) as wheel:
        name = next(each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(wheel.read(name).decode())
    assert metadata["Author"] == "rxtemporal developers"
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Description-Content-Type"] == "text/markdown"
    urls = dict(each.split(", ") for each in metadata.get_all("Project-URL", []))
    assert {"Source", "Documentation", "Changelog", "Issues"} <= {*urls}
    # on an index there are no files beside the README
    links = re.findall(r"\]\(([^)\s]+)\)", str(metadata.get_payload()))
    assert len(links) > 30
    assert [each for each in links if not each.startswith(("https://", "#"))] == []
