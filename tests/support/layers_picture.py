"""Draw docs/layers.svg from the import contract: ``python tests/support/layers_picture.py``."""

from __future__ import annotations

import configparser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# a few words for each package; private ones hold nothing that users import
WORDS = {
    "cli": "the command line and the demonstration",
    "testing": "tools for tests of queries",
    "serve": "the HTTP edge: receipts, results, limits",
    "brokers": "Kafka and MQTT",
    "metrics": "counters for Prometheus",
    "spark": "what imports pyspark",
    "query": "streams, inputs, applications, replay: what users write",
    "view": "a run taken apart: causes of rows, the event-flow page",
    "run": "a plan as a running process",
    "agg": "aggregates",
    "pattern": "functions of a match",
    "operators": "descriptions of operators, the plan, explain",
    "reactive": "the Rx side, subjects",
    "storage": "files, event log",
    "sinks": "where results go",
    "plots": "charts, timelines",
    "ingress": "sources, the door (late events), packing rows into batches",
    "engine": "how operators compute: kernels and steps; no Rx, no Spark",
    "core": "ticks, events, schema, payloads, batches: used by all others",
    "text": "pictures and tables of plain values: SVG, HTML, text",
    "errors": "the tree of errors",
}
PRIVATE = {"run", "view", "storage", "engine", "text"}
LEFT, WIDTH, TOP, HEIGHT, STEP, GAP = 56, 774, 52, 46, 54, 8
FONT = 'font-family="Helvetica, Arial, sans-serif"'


def draw() -> str:
    """Return the picture: a row for each layer, from the top."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg", "utf-8")
    lines = parser["importlinter:contract:layers"]["layers"].split("\n")
    layers = [[each.strip() for each in line.split("|")] for line in lines if line.strip()]
    bottom = TOP + STEP * len(layers)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="860" height="{bottom + 64}" '
        f'viewBox="0 0 860 {bottom + 64}">',
        "<title>The layers of rxtemporal</title>",
        f'<rect x="0" y="0" width="860" height="{bottom + 64}" fill="#ffffff"/>',
        text(56, 34, "Layers: a package imports only from the layers below it", 17, True),
    ]
    for row, names in enumerate(layers):
        y = TOP + row * STEP
        parts.append(text(42, y + 28, str(len(layers) - row), 13, ink="#6b7280", anchor="end"))
        parts += draw_layer(names, y)
    parts += legend(bottom + 10)
    return "\n".join([*parts, "</svg>\n"])


def draw_layer(names: list[str], y: int) -> list[str]:
    """Return the boxes of one layer, as wide as their words need."""
    if len(names) == 1:
        (name,) = names
        return [box(LEFT, y, WIDTH, name), text(72, y + 28, name, 15, True),
                text(176, y + 28, WORDS[name], 13)]  # fmt: skip
    sizes = [max(len(WORDS[name]) * 7.2, len(name) * 9) + 24 for name in names]
    share = (WIDTH - GAP * (len(names) - 1)) / sum(sizes)
    parts, x = [], float(LEFT)
    for name, size in zip(names, sizes, strict=True):
        parts += [box(x, y, size * share, name), text(x + 12, y + 19, name, 15, True),
                  text(x + 12, y + 36, WORDS[name], 12)]  # fmt: skip
        x += size * share + GAP
    return parts


def box(x: float, y: float, width: float, name: str, height: float = HEIGHT) -> str:
    """Return a box, dashed if the package is private."""
    fill, dashed = ("#f1f5f9", ' stroke-dasharray="5,4"') if name in PRIVATE else ("#dbeafe", "")
    return (
        f'<rect x="{x:g}" y="{y}" width="{width:.1f}" height="{height}" rx="7" ry="7" '
        f'fill="{fill}" stroke="#94a3b8" stroke-width="1.2"{dashed}/>'
    )


def text(
    x: float, y: float, words: str, size: int, bold: bool = False, ink: str = "#1f2937",
    anchor: str = "start",
) -> str:  # fmt: skip
    """Return a text at a place."""
    weight = "bold" if bold else "normal"
    return (
        f'<text x="{x:.1f}" y="{y}" {FONT} font-size="{size}" fill="{ink}" '
        f'font-weight="{weight}" text-anchor="{anchor}">{words}</text>'
    )


def legend(y: int) -> list[str]:
    """Return the meaning of the two kinds of boxes."""
    return [
        box(56, y, 22, "query", 14),
        text(86, y + 12, "users may import from it", 12, ink="#6b7280"),
        box(266, y, 22, "engine", 14),
        text(296, y + 12, "private: holds nothing that users import", 12, ink="#6b7280"),
    ]


if __name__ == "__main__":
    (ROOT / "docs" / "layers.svg").write_text(draw(), encoding="utf-8")
