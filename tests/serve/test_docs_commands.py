"""Every curl of the documentation runs against the served house, and prints what the page says."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from needs import skip_or_fail
from served_house import serve_house

from rxtemporal.serve.settings import Settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(?P<kind>[^\n]*)\n(?P<text>.*?)^```$", re.M | re.S)
# the address that the pages name
ADDRESS = "http://localhost:8123"


def commands(page: Path) -> Iterator[tuple[str, str | None]]:
    """Yield the commands of a page that call curl, each with the output that the page shows."""
    found = [
        (each["kind"].strip(), each["text"]) for each in FENCE.finditer(page.read_text("utf-8"))
    ]
    for (kind, text), (after, output) in zip(found, [*found[1:], ("end", "")], strict=False):
        if kind == "sh" and re.search(r"\bcurl\b", text):
            yield text, output if after == "" else None


WITH_CURL = [page for page in PAGES if any(commands(page))]


def matches(printed: str, shown: str) -> bool:
    """Return True if an output is the one shown; ``...`` in this stands for anything."""
    pattern = ".*".join(map(re.escape, shown.strip().split("...")))
    return re.fullmatch(pattern, printed.strip(), re.S) is not None


@pytest.mark.parametrize("page", WITH_CURL, ids=lambda page: page.stem)
def test_the_commands_of_a_page_print_what_it_says(page: Path, tmp_path: Path) -> None:
    """Each command is run with the real curl, in the order of the page, against an empty house."""
    if shutil.which("curl") is None:
        skip_or_fail("curl", "there is no curl")
    with serve_house(tmp_path / "state", "--no-devices") as house:
        house.wait_until_ready()
        for command, shown in commands(page):
            ran = subprocess.run(
                ["bash", "-c", command.replace(ADDRESS, house.url)],
                capture_output=True,
                encoding="utf-8",
                timeout=60,
                check=False,
            )
            printed = ran.stdout.replace("\r\n", "\n")
            # 28: the time that the command itself allows is over
            assert ran.returncode in (0, 28), (command, ran.stderr)
            if shown is not None:
                assert matches(printed, shown), f"{command}\nprinted:\n{printed}\nshown:\n{shown}"
        assert house.stop() == 0


def test_no_command_names_another_address() -> None:
    """All commands are for the house that the pages say how to serve."""
    assert len(WITH_CURL) >= 2
    for page in WITH_CURL:
        for command, _ in commands(page):
            assert ADDRESS in command, f"{page.name}: {command}"


def test_the_configuration_of_the_page_is_one() -> None:
    """The example of docs/operations.md has keys that there are, and valid values."""
    text = (ROOT / "docs/operations.md").read_text("utf-8")
    blocks = [each["text"] for each in FENCE.finditer(text)]
    (example,) = [each for each in blocks if "[server]" in each]
    (broker,) = [each for each in blocks if each.startswith("[mqtt]")]
    settings = Settings.parse(tomllib.loads(example + broker))
    assert settings.tokens["gateway"].rate == 500
    assert settings.mqtt is not None
    assert settings.mqtt.input == "house/{input}/temp"
