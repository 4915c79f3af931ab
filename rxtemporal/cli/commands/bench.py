"""The command ``bench``: the speed of a query."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rxtemporal.cli.options import INTERRUPTED, add_file_options, list_file_options, parse_seconds


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add the command to the command line."""
    bench = commands.add_parser(
        "bench",
        parents=[shared],
        help="measure a query: rows per second, share of each operator, latency",
        description="Reads the inputs into memory, and runs a query over them in batches of 64, "
        "1,024 and 65,536 rows and event by event, with a CTI after each. Prints rows per second, "
        "the share of time of each operator, and the latency of one event. The results of the "
        "query are discarded.",
    )
    bench.add_argument(
        "query", metavar="MODULE:FUNCTION",
        help="the query, as in `rxtemporal replay`: a function of streams (or FILE.py:FUNCTION)",
    )  # fmt: skip
    bench.add_argument(
        "--input", type=Path, nargs="+", required=True, metavar="PATH",
        help="folder of a recording, or a file (.csv, .json, .jsonl, .ndjson, .parquet)",
    )  # fmt: skip
    bench.add_argument(
        "--seconds", type=parse_seconds, default=3.0, metavar="N",
        help="limit of each single run, of which there are about 16 (default: %(default)g)",
    )  # fmt: skip
    add_file_options(bench)
    bench.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the command; Ctrl-C ends it."""
    from rxtemporal.cli.bench import Bench, describe
    from rxtemporal.cli.progress import is_watched
    from rxtemporal.cli.replay import FileOptions, find_query, open_streams

    def report(words: str) -> None:
        if is_watched():
            print(words, file=sys.stderr, flush=True)

    files = FileOptions(*list_file_options(options))
    query = find_query(options.query, "the query")
    try:
        report("reading the input …")
        bench = Bench(query, open_streams(options.input, files), options.seconds)
        print(f"{options.query} over {bench.rows:,} rows")
        rates = []
        for size in bench.sizes:
            report(f"measuring batches of {size:,} rows …")
            rates.append(bench.measure_rate(size))
        report("measuring single events …")
        latency = bench.measure_latency()
    except KeyboardInterrupt:
        return INTERRUPTED
    for line in describe(rates, latency):
        print(line)
    return 0
