"""The page on fleets: its settings are settings, and its plan is that of the figures."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

from child_process import environment
from package import ROOT

from rxtemporal.serve import Settings

PAGE = (ROOT / "docs" / "scale.md").read_text("utf-8")


def test_the_settings_of_the_page_are_read() -> None:
    """Each listing with a section is a configuration, which names a sink for the query."""
    blocks = re.findall(r"^```([^\n]*)\n(.*?)^```$", PAGE, re.M | re.S)
    listings = [text for language, text in blocks if not language and "kind = " in text]
    assert len(listings) == 2
    for text in listings:
        settings = Settings.parse(tomllib.loads(text))
        assert "accepted" in settings.describe()


def test_the_application_of_the_page_is_that_of_the_check() -> None:
    """The rows have the same fields, and the same times."""
    source = (ROOT / "benchmarks" / "fleet_house.py").read_text("utf-8")
    assert source[source.index("readings = ") :] in PAGE


def test_the_plan_of_the_page_is_printed() -> None:
    """The script prints it from the figures that are stored."""
    command = [sys.executable, str(ROOT / "benchmarks" / "capacity.py")]
    options = ["--devices", "1_000_000", "--rate", "17_000"]
    done = subprocess.run(
        [*command, *options], env=environment(), capture_output=True, text=True, check=True
    )
    assert f"```\n{done.stdout}```\n" in PAGE
