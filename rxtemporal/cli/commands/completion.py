"""The command ``completion``: completion of commands and options in a shell."""

from __future__ import annotations

import argparse


def add_command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], shared: argparse.ArgumentParser
) -> None:
    """Add the command to the command line."""
    completion = commands.add_parser(
        "completion",
        parents=[shared],
        help="print the completion of commands and options for bash, zsh or fish",
        description="Prints a script for a shell. bash: put "
        '`eval "$(rxtemporal completion bash)"` into ~/.bashrc. zsh: put '
        '`eval "$(rxtemporal completion zsh)"` into ~/.zshrc. fish: '
        "`rxtemporal completion fish > ~/.config/fish/completions/rxtemporal.fish`.",
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell")
    completion.set_defaults(run=lambda options: run(options, commands))


def run(
    options: argparse.Namespace, commands: argparse._SubParsersAction[argparse.ArgumentParser]
) -> int:
    """Run the command and return its exit status."""
    from rxtemporal.cli.completion import make_script

    print(make_script(options.shell, commands), end="")
    return 0
