"""The files of the page on servers: the unit is valid, and the steps of the image work."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from needs import skip_or_fail
from package import LEFT_OUT, ROOT
from served_house import LISTENS, PATIENCE

FILES = ROOT / "samples" / "deploy"
# the steps that need the user of the image, or its folders
AS_ROOT = ("useradd",)


def test_the_page_has_the_files_as_they_are() -> None:
    """What is shown is what is tested."""
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    for path in sorted(FILES.iterdir()):
        assert f"\n{path.read_text('utf-8')}```" in page, path


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Without a warning, where the program that it starts is there."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        skip_or_fail("systemd", "there is no systemd-analyze")
    program = tmp_path / "venv" / "bin" / "rxtemporal"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = (FILES / "house.service").read_text().replace("/srv/house", str(tmp_path))
    (tmp_path / "house.service").write_text(unit)
    found = subprocess.run(
        [str(analyze), "verify", str(tmp_path / "house.service")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (0, "")


def list_steps() -> list[tuple[str, str]]:
    """Return the instructions of the image and what they take, continued lines joined."""
    text = (FILES / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def test_the_image_follows_the_unit() -> None:
    """Both start the same program, and keep the same folders."""
    steps = dict(list_steps())
    unit = (FILES / "house.service").read_text()
    assert 'rxtemporal", "serve", "house.py:app", "--config", "serve.toml"' in steps["CMD"]
    assert "rxtemporal serve house.py:app --config serve.toml" in unit
    assert steps["ENV"] in unit
    assert steps["USER"] == "house"


@pytest.mark.full
def test_the_steps_of_the_image_make_a_service(tmp_path: Path) -> None:
    """In an empty folder and an empty environment; the service is ready, and stops on SIGTERM."""
    srv, state, cache = tmp_path / "srv", tmp_path / "state", tmp_path / "cache"
    for folder in (srv, state, cache):
        folder.mkdir()
    places = {"/srv/house": srv, "/var/lib/house": state, "/var/cache/house": cache}

    def place(text: str) -> str:
        for path, folder in places.items():
            text = text.replace(path, str(folder))
        return text

    copy = tmp_path / "checkout"  # a build leaves files
    shutil.copytree(ROOT, copy, ignore=LEFT_OUT)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", str(copy), "-w", "wheels"],
        cwd=srv, check=True,
    )  # fmt: skip
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    (scripts / "python").symlink_to(sys.executable)
    environ = {"PATH": f"{scripts}:/usr/bin:/bin", "HOME": str(tmp_path)}
    environ |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    for kind, step in list_steps():
        if kind == "COPY":
            for name in step.split()[:-1]:
                if (FILES / name).exists():
                    (srv / name).write_text(place((FILES / name).read_text()))
        elif kind == "ENV":
            name, _, value = place(step).partition("=")
            environ[name] = value
        elif kind == "RUN" and not step.startswith(AS_ROOT):
            subprocess.run(["sh", "-c", place(step)], cwd=srv, env=environ, check=True)
    (command,) = (re.findall(r'"([^"]+)"', step) for kind, step in list_steps() if kind == "CMD")
    command = [*command[:-2], "--port", "0"]  # on this machine alone
    with subprocess.Popen(
        command, cwd=srv, env=environ, stderr=subprocess.PIPE, text=True
    ) as service:
        try:
            assert service.stderr is not None
            listens = (LISTENS.search(line) for line in service.stderr)
            url = next(found[1] for found in listens if found is not None)
            assert httpx.get(f"{url}/healthz", timeout=PATIENCE).status_code == 200
            service.send_signal(signal.SIGTERM)
            service.stderr.read()
            assert service.wait(PATIENCE) == 0
        finally:
            service.kill()
