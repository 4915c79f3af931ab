"""Entry point of the command line, with its commands and their options."""

from __future__ import annotations

import argparse
import logging
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from rxtemporal import __version__
from rxtemporal.cli.tap import add_tap
from rxtemporal.cli.top import add_top
from rxtemporal.errors import RxTemporalError

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    options = _parser().parse_args(arguments)
    _configure_logging(options.verbose)
    try:
        return int(options.run(options))
    except RxTemporalError as error:
        print(f"rxtemporal: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = f" at {error.filename}" if error.filename else ""
        print(
            f"rxtemporal: {error.strerror or error}{where}. Hint: check that the path exists, that "
            "you may write to it and that its disk has room, or use another path.",
            file=sys.stderr,
        )
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rxtemporal",
        description="Temporal queries over late and out-of-order events, with final results.",
    )
    parser.add_argument("--version", action="version", version=f"rxtemporal {__version__}")
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument(
        "-v", "--verbose", action="count", default=0, help="log more: -v for steps, -vv for details"
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands, shared)
    _add_replay(commands, shared)
    _add_bench(commands, shared)
    _add_inspect(commands, shared)
    _add_doctor(commands, shared)
    _add_serve(commands, shared)
    add_top(commands, shared)
    add_tap(commands, shared)
    return parser


def _add_demo(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    demo = commands.add_parser(
        "demo",
        parents=[shared],
        help="merge the flight feeds of three airports and write the results into a Spark table",
        description="Merges the flight feeds of New York's three airports in January 2013 into one "
        "stream, computes the number of departures and their mean delay in hopping windows, and "
        "writes the results into a Spark table. A second run adds no row a second time.",
    )
    demo.add_argument(
        "--out", type=Path, default=Path("rxtemporal-demo"), metavar="DIR",
        help="folder for the table and the picture (default: %(default)s)",
    )  # fmt: skip
    demo.add_argument(
        "--no-spark",
        action="store_true",
        help="write the results into one Parquet file, without Spark",
    )
    speed = demo.add_mutually_exclusive_group()
    speed.add_argument(
        "--fast", action="store_true", help="send events as fast as the query takes them (default)"
    )
    speed.add_argument(
        "--rate", type=_rate, metavar="N", help="send N events a second, to watch it work"
    )
    demo.set_defaults(run=_demo)


def _add_replay(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    replay = commands.add_parser(
        "replay",
        parents=[shared],
        help="run a query over a recording, or over CSV, JSON lines and Parquet files",
        description="Runs a query over a recording (made with run(sink, record=PATH)) or over "
        "files of rows, and prints the results as a table or writes a file. Over a recording "
        "the query gives the same results and the same late events as in the recorded run.",
    )
    replay.add_argument(
        "paths", type=Path, nargs="+", metavar="PATH",
        help="folder of a recording, or a file (.csv, .json, .jsonl, .ndjson, .parquet)",
    )  # fmt: skip
    replay.add_argument(
        "--query", required=True, metavar="MODULE:FUNCTION",
        help="the query: a function of streams (or FILE.py:FUNCTION). Its parameters are the names "
        "of the streams: a recorded stream keeps its name, a file gives its name without suffix",
    )  # fmt: skip
    replay.add_argument(
        "--speed", type=_speed, default=math.inf, metavar="N|max",
        help="seconds of application time per second; 1 is real time (default: max)",
    )  # fmt: skip
    replay.add_argument(
        "--out", type=Path, metavar="FILE",
        help="write the results to a file: .csv, .parquet, or .json, .jsonl, .ndjson (JSON lines)",
    )  # fmt: skip
    _add_file_options(replay)
    replay.set_defaults(run=_replay)


def _add_bench(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
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
        "--seconds", type=_seconds, default=3.0, metavar="N",
        help="limit of each single run, of which there are about 16 (default: %(default)g)",
    )  # fmt: skip
    _add_file_options(bench)
    bench.set_defaults(run=_bench)


def _add_file_options(command: argparse.ArgumentParser) -> None:
    files = command.add_argument_group("options for files")
    files.add_argument(
        "--start", metavar="COLUMN", help="column of times, or of the starts of rows"
    )
    files.add_argument(
        "--end", metavar="COLUMN", help="column of the ends of rows; without it rows are points"
    )
    files.add_argument(
        "--time-zone",
        metavar="ZONE",
        help="time zone of times without an offset (CSV), for example UTC",
    )
    files.add_argument(
        "--delay", type=float, metavar="SECONDS",
        help="after each row make a CTI this far behind it, and drop rows that are later",
    )  # fmt: skip


def _add_inspect(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    inspect = commands.add_parser(
        "inspect",
        parents=[shared],
        help="check an event log, a checkpoint or a recording, and copy what is whole",
        description="Reads all of a folder of log=, resume= or record=, and says what it has, what "
        "is damaged and what is lost. Changes nothing there. The exit status is 1 if a run would "
        "refuse the folder.",
    )
    inspect.add_argument("path", type=Path, metavar="PATH", help="the folder")
    inspect.add_argument(
        "--salvage", type=Path, metavar="OUT", help="copy what is whole into a new folder"
    )
    inspect.set_defaults(run=_inspect)


def _add_doctor(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    doctor = commands.add_parser(
        "doctor",
        parents=[shared],
        help="check Python, Java, the disk and a spool",
        description="Checks what a run needs: Python, packages, Java and, if PATH is given, the "
        "disk and the spool there. Says what to do about each problem.",
    )
    doctor.add_argument("path", type=Path, nargs="?", metavar="PATH", help="path of a SparkSink")
    doctor.set_defaults(run=_doctor)


def _add_serve(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    command = commands.add_parser(
        "serve",
        parents=[shared],
        help="serve an application over HTTP, with a receipt for pushed rows",
        description="Serves the streams and queries of an application over HTTP. Devices send rows "
        "to POST /streams/NAME and get a receipt once the rows are on disk. Readers get results "
        "from GET /queries/NAME/events. Without tokens only this machine may connect. SIGTERM "
        "stops the service without loss, after saving a checkpoint; a second one ends it at once.",
    )
    command.add_argument(
        "application", nargs="?", metavar="FILE.py:NAME",
        help="the application: a name in a file or a module (MODULE:NAME), which is an "
        "rxt.Application, the result of serve.app(…), or a function that returns one of them",
    )  # fmt: skip
    command.add_argument("--config", type=Path, metavar="FILE", help="settings, a TOML file")
    command.add_argument(
        "--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)"
    )
    command.add_argument(
        "--port", type=int, metavar="N", help="port; 0 takes a free one (default: 8000)"
    )
    command.add_argument(
        "--state", type=Path, metavar="FOLDER",
        help="folder of the event log and the checkpoints; without one nothing is durable",
    )  # fmt: skip
    command.add_argument(
        "--check", action="store_true",
        help="print the effective settings without secrets, and do not serve",
    )  # fmt: skip
    command.add_argument(
        "--new-token", metavar="NAME",
        help="print a new token on standard error, and its section for the settings",
    )  # fmt: skip
    demo = command.add_argument_group("demonstration")
    demo.add_argument("--demo", action="store_true", help="serve a house of sensors, with a page")
    demo.add_argument("--no-devices", action="store_true", help="start no simulated devices")
    command.set_defaults(run=_serve)


def _rate(text: str) -> float:
    rate = float(text)
    if not rate > 0:
        raise argparse.ArgumentTypeError(
            f"the rate is a positive number of events per second, got {text}"
        )
    return rate


def _speed(text: str) -> float:
    speed = math.inf if text == "max" else float(text)
    if not speed > 0:
        raise argparse.ArgumentTypeError(f"the speed is a positive number or max, got {text}")
    return speed


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"a positive number of seconds, got {text}")
    return seconds


def _configure_logging(verbose: int) -> None:
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("rxtemporal").setLevel(level)


def _demo(options: argparse.Namespace) -> int:
    try:
        from rxtemporal.cli.demo.display import Display, stopped_text
    except ImportError as error:
        raise RxTemporalError(
            f"the demonstration needs packages beyond the library: {error}. "
            "Hint: pip install 'rxtemporal[demo]'."
        ) from error
    from rxtemporal.cli.demo.main import demo

    display = Display()
    try:
        report = demo(options.out, spark=not options.no_spark, rate=options.rate, display=display)
    except KeyboardInterrupt:
        display.say(stopped_text(options.out, spark=not options.no_spark))
        return INTERRUPTED
    display.summary(report)
    return 0


def _replay(options: argparse.Namespace) -> int:
    from rxtemporal.cli.progress import is_watched, summarize, wait_visibly
    from rxtemporal.cli.replay import FileOptions, apply_query, find_query, open_streams
    from rxtemporal.query.replay import at_speed
    from rxtemporal.sinks import File, Print

    files = FileOptions(options.start, options.end, options.time_zone, options.delay)
    query = apply_query(find_query(options.query), open_streams(options.paths, files))
    quiet = options.out is not None or not sys.stdout.isatty()
    sink = Print() if options.out is None else File(options.out)
    process = at_speed(query, options.speed).run(sink, name="replay")
    try:
        with process:
            wait_visibly(process, show=quiet and is_watched())
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        print(summarize(process), file=sys.stderr)
    return 0


def _bench(options: argparse.Namespace) -> int:
    from rxtemporal.cli.bench import Bench, describe
    from rxtemporal.cli.progress import is_watched
    from rxtemporal.cli.replay import FileOptions, find_query, open_streams

    def report(words: str) -> None:
        if is_watched():
            print(words, file=sys.stderr, flush=True)

    files = FileOptions(options.start, options.end, options.time_zone, options.delay)
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


def _inspect(options: argparse.Namespace) -> int:
    from rxtemporal.cli.inspection import describe
    from rxtemporal.storage.salvage import inspect, salvage

    if options.salvage is None:
        found = inspect(options.path)
    else:
        found = salvage(options.path, options.salvage)
    for line in describe(found, options.salvage):
        print(line)
    return 1 if found.damage else 0


def _doctor(options: argparse.Namespace) -> int:
    from rxtemporal.cli.doctor import examine

    findings = examine(options.path)
    for finding in findings:
        print(f"{'ok ' if finding.ok else 'BAD'}  {finding.name:<12} {finding.detail}")
        if not finding.ok and finding.advice:
            print(f"     {'':<12} {finding.advice}")
    return 0 if all(finding.ok for finding in findings) else 1


def _serve(options: argparse.Namespace) -> int:
    from rxtemporal.cli.serve import serve

    return serve(options)


if __name__ == "__main__":
    sys.exit(main())
