"""The command ``serve``: an application behind HTTP, and the demonstration of one."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rxtemporal.cli.inputs import load_module
from rxtemporal.core.ticks import TimeLike, time_ticks
from rxtemporal.errors import ArgumentError, EventError, SourceError
from rxtemporal.query.application import Application

if TYPE_CHECKING:
    from rxtemporal.serve import ServiceApp, Settings


DESCRIPTION = (
    "Serves the streams and queries of an application over HTTP. Devices send rows "
    "to POST /streams/NAME and get a receipt once the rows are on disk. Readers get results "
    "from GET /queries/NAME/events. Without tokens only this machine may connect. SIGTERM "
    "stops the service without loss, after saving a checkpoint; a second one ends it at once."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "application", nargs="?", metavar="FILE.py:NAME",
        help="the application: a name in a file or a module (MODULE:NAME), which is an "
        "rxt.Application, the result of serve.app(…), or a function that returns one of them",
    )  # fmt: skip
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings, a TOML file")
    parser.add_argument(
        "--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--port", type=int, metavar="N", help="port; 0 takes a free one (default: 8000)"
    )
    parser.add_argument(
        "--state", type=Path, metavar="FOLDER",
        help="folder of the event log and the checkpoints; without one nothing is durable",
    )  # fmt: skip
    parser.add_argument(
        "--evolve", action="store_true",
        help="continue the folder with a changed application; rxtemporal plan shows what is kept",
    )  # fmt: skip
    parser.add_argument(
        "--partial", action="store_true",
        help="with --evolve: give windows that contain the time of the change, too",
    )  # fmt: skip
    parser.add_argument(
        "--replay-from", type=read_time, metavar="TIME",
        help="compute what is new in a changed application from this time on, out of the history "
        "that keep_history in [state] has kept",
    )  # fmt: skip
    parser.add_argument(
        "--check", action="store_true",
        help="print the effective settings without secrets, and do not serve",
    )  # fmt: skip
    parser.add_argument(
        "--new-token", metavar="NAME",
        help="print a new token on standard error, and its section for the settings",
    )  # fmt: skip
    demo = parser.add_argument_group("demonstration")
    demo.add_argument("--demo", action="store_true", help="serve a house of sensors, with a page")
    demo.add_argument("--no-devices", action="store_true", help="start no simulated devices")


def run(options: argparse.Namespace) -> int:
    """Serve until a signal, or print what was asked for; return the exit status."""
    if options.new_token is not None:
        print_token(options.new_token)
        return 0
    app, senders = _make(options, _read_settings(options))
    _allow_change(app, options)
    if options.check:
        describe(app, print)
        return 0
    from rxtemporal.serve.server import Server

    Server(app, report, senders, owns_process=True).listen()
    return 0


def _allow_change(app: ServiceApp, options: argparse.Namespace) -> None:
    """Let the first run continue the folder of another application, if that is asked for."""
    service = app.service
    if options.evolve and service.settings.state.folder is None:
        raise ArgumentError(
            "--evolve continues a folder, and there is none. Hint: --state FOLDER, or folder in "
            "[state] of the settings."
        )
    if options.partial and not options.evolve:
        raise ArgumentError("--partial is for --evolve. Hint: leave it out.")
    if options.replay_from is not None and service.settings.state.folder is None:
        raise ArgumentError(
            "--replay-from reads the history in a folder, and there is none. Hint: --state FOLDER."
        )
    service.allow_change(
        evolve=options.evolve, partial=options.partial, replay_from=options.replay_from
    )


def read_time(text: str) -> TimeLike:
    """Return a time of a command line: an ISO 8601 text with an offset, or a number of ticks."""
    time: TimeLike = int(text) if text.lstrip("-").isdecimal() else text
    try:
        time_ticks(time)
    except EventError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return time


def report(words: str) -> None:
    """Print a line of progress."""
    print(words, file=sys.stderr, flush=True)


def _read_settings(options: argparse.Namespace) -> Settings | None:
    """Return the settings of the file and of the options; None without any."""
    from rxtemporal.serve import Settings

    server = {"host": options.host, "port": options.port}
    server = {name: value for name, value in server.items() if value is not None}
    if options.config is None and options.state is None and not server:
        return None
    settings = Settings() if options.config is None else Settings.load(options.config)
    if options.state is not None:
        settings = settings.change("state", folder=options.state)
    return settings.change("server", **server)


def _make(options: argparse.Namespace, settings: Settings | None) -> tuple[ServiceApp, Any]:
    """Return the ASGI application, and the simulated devices that send into it."""
    if options.demo == (options.application is not None):
        raise ArgumentError(
            "serve takes an application or --demo. Hint: rxtemporal serve house.py:app."
        )
    if options.demo:
        return _make_demo(settings, devices=not options.no_devices)
    if options.no_devices:
        raise ArgumentError("--no-devices is for --demo")
    return find_application(options.application, settings), None


def _make_demo(settings: Settings | None, *, devices: bool) -> tuple[ServiceApp, Any]:
    from rxtemporal.serve.asgi import ServiceApp
    from rxtemporal.serve.demo import house
    from rxtemporal.serve.demo.devices import run
    from rxtemporal.serve.demo.house import list_routes

    app = ServiceApp(house.application(), settings)
    app.add_routes(list_routes(app.service))
    return app, run if devices else None


def find_application(text: str, settings: Settings | None) -> ServiceApp:
    """Return the application that ``file.py:name`` or ``module:name`` names.

    The name is that of an ``Application``, of the result of ``serve.app``, or of a function
    without parameters that returns one of them.
    """
    from rxtemporal.serve import ServiceApp, app

    place, _, name = text.rpartition(":")
    if not place or not name:
        raise ArgumentError(
            f"serve takes FILE.py:NAME or MODULE:NAME, got {text!r}. "
            "Hint: NAME is that of an rxt.Application, as in house.py:app."
        )
    try:
        module = load_module(place)
    except ModuleNotFoundError as error:
        raise SourceError(
            f"there is no module {error.name!r}, which {text} needs. "
            "Hint: name a file (path/house.py:app), or put the module on Python's path."
        ) from error
    if not hasattr(module, name):
        there = [key for key, value in vars(module).items()
                 if isinstance(value, (Application, ServiceApp))]  # fmt: skip
        raise SourceError(
            f"{place} has no name {name!r}. Hint: its applications are "
            f"{', '.join(f'{place}:{each}' for each in there) or 'none; app = rxt.Application(…)'}."
        )
    found = getattr(module, name)
    if callable(found) and not isinstance(found, (Application, ServiceApp, type)):
        found = _call(found, text)
    if isinstance(found, Application):
        return app(found, settings)
    if isinstance(found, ServiceApp):
        return found if settings is None else found.configure(settings)
    raise SourceError(
        f"{text} is not an application, but {found!r}. Hint: an rxt.Application, the result of "
        "serve.app(…), or a function that returns one of them."
    )


def _call(make: Callable[..., Any], text: str) -> Any:
    """Return what the function returns; raise if it has parameters, as a query has."""
    try:
        inspect.signature(make).bind()
    except TypeError as error:
        raise SourceError(
            f"{text} is a function that cannot be called without arguments: {error}. Hint: serve "
            "takes an rxt.Application, or a function without parameters that returns one; "
            "app.query(name, stream) adds a query to it."
        ) from None
    return make()


def describe(app: ServiceApp, show: Callable[[str], object]) -> None:
    """Print the effective settings without secrets, and what is served."""
    from rxtemporal.serve.server import check_address

    service = app.service
    show(f"# {service.name}")
    for name in service.sources:
        show(f"# stream {name}")
    for name in service.feeds:
        show(f"# query {name}")
    show("")
    show(service.settings.describe().rstrip())
    check_address(service.settings)


def print_token(name: str) -> None:
    """Print a new token once, on standard error, and its section of the configuration."""
    from rxtemporal.serve.settings import quote
    from rxtemporal.serve.tokens import make_token

    text, digest = make_token()
    print(f"the token of {name}, which is not shown again: {text}", file=sys.stderr)
    print(f'[tokens.{quote(name)}]\nhash = "{digest}"\nwrite = ["*"]\nread = false')
