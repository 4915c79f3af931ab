"""The page of metrics, the dashboard and the alerts name metrics that there are."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import rxtemporal as rxt
from rxtemporal.metrics.catalog import (
    METRICS,
    MetricKind,
    MetricOwner,
    list_metrics,
)
from rxtemporal.metrics.collector import list_samples

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAME = re.compile(r"\brxtemporal_\w+")
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def list_names() -> set[str]:
    """Return the names that a scrape has, those of a histogram's parts among them."""
    names = {each.prometheus for each in METRICS.values()}
    for each in METRICS.values():
        if each.kind is MetricKind.HISTOGRAM:
            names |= {f"{each.family}{part}" for part in ("_bucket", "_sum", "_count")}
    return names


def make_table() -> str:
    """Return all metrics as a table in Markdown."""
    lines = ["| Prometheus | kind | unit | labels | meaning |", "|---|---|---|---|---|"]
    for each in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in each.labels)
        cells = [f"`{each.prometheus}`", each.kind.value, each.unit, labels, each.help]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def test_the_page_has_the_table_of_all_metrics() -> None:
    """The table of docs/metrics.md is made of the list."""
    assert make_table() in (DOCS / "metrics.md").read_text("utf-8")


def test_each_metric_of_a_process_comes_out(tmp_path: Path) -> None:
    """A process that has everything has a sample of each metric but those of a server."""
    left, right, other = (
        rxt.PushSource(name, schema={name: int}, hand_off=hand_off)
        for name, hand_off in (("left", None), ("right", None), ("other", rxt.HandOff()))
    )
    process = left.stream.cross_join(right.stream).run(rxt.Collect(), resume=tmp_path / "run")
    behind_hand_off = other.stream.run(rxt.Collect())
    devices = rxt.PushSource("devices", schema={"device": str}, clock="device")
    together = devices.stream.synchronize("1h").run(rxt.Collect())
    for device, hour in (("a", 6), ("b", 12), ("a", 7)):
        devices.push({"time": NOON.replace(hour=hour), "device": device})
    right.push({"time": NOON, "right": 1})
    left.push([{"time": NOON, "left": 1}, {"time": NOON.replace(minute=1), "left": 1}])
    samples = [
        sample
        for each in (process, behind_hand_off, together)
        for sample in list_samples(each.diagnostics(), NOON.timestamp())
    ]
    process.stop()
    behind_hand_off.stop()
    together.stop()
    there = {each.name for each in list_metrics(MetricOwner.PROCESS)}
    assert {each.metric.name for each in samples} == there


@pytest.mark.parametrize("file", ["operations/grafana.json", "operations/alerts.yml", "metrics.md"])
def test_the_names_in_a_file_exist(file: str) -> None:
    """Each metric that the file names is one of the list."""
    named = set(NAME.findall((DOCS / file).read_text("utf-8")))
    assert named
    assert named <= list_names()


def test_the_dashboard_shows_labels_that_there_are() -> None:
    """Each panel has queries; labels in their legends are those of one of their metrics."""
    dashboard: dict[str, Any] = json.loads((DOCS / "operations/grafana.json").read_text("utf-8"))
    by_name = {each.prometheus: each for each in METRICS.values()}
    for panel in dashboard["panels"]:
        assert panel["targets"], panel["title"]
        for target in panel["targets"]:
            names = [re.sub("_bucket$", "", name) for name in NAME.findall(target["expr"])]
            labels = {label for name in names for label in by_name[name].labels}
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert legend <= labels, panel["title"]
            assert ("$process" in target["expr"]) == ("process" in labels), panel["title"]


def test_there_are_three_alerts() -> None:
    """The rules are a list of three, each with an expression, a summary and what to do."""
    yaml = pytest.importorskip("yaml")
    (group,) = yaml.safe_load((DOCS / "operations/alerts.yml").read_text("utf-8"))["groups"]
    assert len(group["rules"]) == 3
    for rule in group["rules"]:
        assert NAME.search(rule["expr"])
        assert {"summary", "description"} == set(rule["annotations"])
