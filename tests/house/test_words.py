"""Words of the package: modules and classes are nouns, functions verbs, docstrings plain."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from syntax_trees import parse_package

# one process parses the package, once
pytestmark = pytest.mark.xdist_group("syntax")

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef

# nouns that end like gerunds
NOUNS = {"Finding", "Recording", "RxTemporalWarning", "Wiring", "ordering", "packing", "streaming",
         "testing", "wiring"}  # fmt: skip
# the seconds on a clock, and verbs that end like participles
# `named` is what users write behind an operator, as they read it: a window named "hot"
# Spark calls its listeners by names of its own
NO_PARTICIPLES = {"elapsed", "embed", "exceed", "feed", "named", "need", "onQueryStarted",
                  "onQueryTerminated", "proceed", "seed", "speed", "succeed"}  # fmt: skip
IRREGULAR = {
    "begun",
    "bought",
    "brought",
    "built",
    "chosen",
    "drawn",
    "driven",
    "fed",
    "felt",
    "found",
    "given",
    "gone",
    "grown",
    "heard",
    "held",
    "kept",
    "known",
    "led",
    "left",
    "lost",
    "made",
    "met",
    "paid",
    "ran",
    "said",
    "seen",
    "sent",
    "shown",
    "sold",
    "spent",
    "taken",
    "thought",
    "told",
    "torn",
    "understood",
    "won",
    "worn",
    "written",
}
# decorators of what is read and not called
READ = {"property", "cached_property", "setter", "getter"}


def classes() -> Iterator[tuple[str, str]]:
    """Yield the name of each class, and its module."""
    for module, tree in parse_package().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield node.name, module


def functions() -> Iterator[tuple[str, str]]:
    """Yield the name of each function and method but properties, and its module."""
    for module, tree in parse_package().items():
        for node in ast.walk(tree):
            if isinstance(node, Function) and not READ & {*decorators(node)}:
                yield node.name, module


def decorators(node: Function) -> Iterator[str]:
    """Yield the last words of a function's decorators."""
    for each in node.decorator_list:
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr


def is_participle(word: str) -> bool:
    """Return True if a word looks like the past participle of a verb."""
    return word in IRREGULAR or (
        "_" not in word and word.endswith("ed") and word not in NO_PARTICIPLES
    )


def test_no_class_name_stands_for_two() -> None:
    """Each class has a name that no other class of the package has."""
    modules = defaultdict(list)
    for name, module in classes():
        modules[name].append(module)
    assert {name: found for name, found in modules.items() if len(found) > 1} == {}


def test_modules_and_classes_are_nouns() -> None:
    """No module and no class is named by a gerund."""
    stems = [Path(module).parent.name if module.endswith("__init__.py") else Path(module).stem
             for module in parse_package()]  # fmt: skip
    names = {*stems, *(name for name, _ in classes())} - NOUNS
    assert sorted(name for name in names if name.endswith("ing")) == []


def test_functions_are_verbs() -> None:
    """No function and no method is named by a participle."""
    found = [f"{module}: {name}" for name, module in functions() if is_participle(name.strip("_"))]
    assert found == []


def test_docstrings_begin_plainly() -> None:
    """A docstring begins with a verb or a noun, and not with a word that asks."""
    asks = re.compile(r"(What|When|Where|Whether|Which|Who|Whose|Why|How)\b")
    found = [
        f"{module}: {getattr(node, 'name', 'module')}"
        for module, tree in parse_package().items()
        for node in ast.walk(tree)
        if isinstance(node, Documented) and asks.match(ast.get_docstring(node) or "")
    ]
    assert found == []


def _list_texts(tree: ast.AST) -> Iterator[str]:
    """Yield each text of a module; a value in it is a pair of braces."""
    within = {
        id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node) if part is not node
    }  # fmt: skip
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif isinstance(node, ast.Constant) and id(node) not in within:
            yield str(node.value)


def test_hints_end_as_sentences_do() -> None:
    """An error's place or the end of the line follows; a hint that goes on elsewhere is let be."""
    # a value may bring its own end, and in code the word stands alone
    ends = (".", "?", "{}", "Hint: ")
    texts = [
        (module, text) for module, tree in parse_package().items() for text in _list_texts(tree)
        if "Hint: " in text and "\n" not in text
    ]  # fmt: skip
    assert len(texts) > 300
    assert [each for each in texts if not each[1].endswith(ends)] == []
