"""Scripts that complete the command line in a shell, made from its parsers."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from typing import TypeAlias

# values of options and arguments without choices are completed as names of files
_BASH = """\
_rxtemporal() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local command=${{COMP_WORDS[1]}} words=""
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=( $(compgen -W {names} -- "$word") )
    return
  fi
  case "$command $before" in
{choices}
  esac
  if [ -z "$words" ] && [ "${{word#-}}" != "$word" ]; then
    case "$command" in
{options}
    esac
  fi
  if [ -n "$words" ]; then
    COMPREPLY=( $(compgen -W "$words" -- "$word") )
  else
    COMPREPLY=( $(compgen -f -- "$word") )
  fi
}}
complete -o filenames -F _rxtemporal rxtemporal
"""
_ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def make_script(shell: str, commands: Commands) -> str:
    """Return the script for ``bash``, ``zsh`` or ``fish``."""
    if shell == "fish":
        return "\n".join(_list_fish_lines(commands)) + "\n"
    script = _BASH.format(
        names=shlex.quote(" ".join([*commands.choices, "--help", "--version"])),
        choices="\n".join(_list_choices(commands)),
        options="\n".join(
            f"      {name}) words={shlex.quote(' '.join(_list_options(parser)))} ;;"
            for name, parser in commands.choices.items()
        ),
    )
    return _ZSH + script if shell == "zsh" else script


def _list_options(parser: argparse.ArgumentParser) -> list[str]:
    return [text for action in parser._actions for text in action.option_strings]


def _list_choices(commands: Commands) -> Iterator[str]:
    """Yield a line for each option that takes one of several words, and for such an argument."""
    for name, parser in commands.choices.items():
        for action in parser._actions:
            if action.choices is not None:
                words = shlex.quote(" ".join(map(str, action.choices)))
                before = action.option_strings or [name]
                patterns = " | ".join(shlex.quote(f"{name} {each}") for each in before)
                yield f"    {patterns}) words={words} ;;"


def _list_fish_lines(commands: Commands) -> Iterator[str]:
    helps = {each.dest: each.help or "" for each in commands._choices_actions}
    for name, parser in commands.choices.items():
        yield (
            f"complete -c rxtemporal -n __fish_use_subcommand -f -a {name} "
            f"-d {_quote(helps.get(name, ''))}"
        )
        for action in parser._actions:
            yield _make_fish_line(name, action)


def _make_fish_line(command: str, action: argparse.Action) -> str:
    words = [f"complete -c rxtemporal -n '__fish_seen_subcommand_from {command}'"]
    for text in action.option_strings:
        words.append(f"-l {text[2:]}" if text.startswith("--") else f"-s {text[1:]}")
    takes_value = action.option_strings and action.nargs != 0
    if action.choices is not None:
        words.append(f"-x -a {_quote(' '.join(map(str, action.choices)))}")
    elif takes_value:
        words.append("-r")
    if action.help and action.option_strings:
        words.append(f"-d {_quote(action.help % vars(action))}")
    return " ".join(words)


def _quote(text: str) -> str:
    """Return a text in quotes, as fish reads it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
