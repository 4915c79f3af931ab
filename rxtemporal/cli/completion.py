"""The command ``completion``: completion of commands and options in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

DESCRIPTION = (
    "Prints a script for a shell. bash: put "
    '`eval "$(rxtemporal completion bash)"` into ~/.bashrc. zsh: put '
    '`eval "$(rxtemporal completion zsh)"` into ~/.zshrc, after compinit. fish: '
    "`rxtemporal completion fish > ~/.config/fish/completions/rxtemporal.fish`."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")


def run(options: argparse.Namespace) -> int:
    """Run the command and return its exit status."""
    import shtab

    from rxtemporal.cli.main import COMMANDS, make_parser

    parser = make_parser(COMMANDS)
    for action in _list_actions(parser):
        if action.choices is None and action.nargs != 0:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=options.shell))
    return 0


def _list_actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the options and arguments of a parser and of its commands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _list_actions(each)
