"""Objects are filled by their constructors and changed by their own methods.

A module may write the attributes of the classes that it defines, and of their subclasses; it calls
a method of any other object. Attributes that no class of the package has are those of others'
objects, and are not looked at. Objects of different classes are told apart by the names of their
attributes alone.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest
from syntax_trees import parse_package

# one process parses the package, once
pytestmark = pytest.mark.xdist_group("syntax")

# where others' attributes are written all the same, and why
ALLOWED = {
    # once for each event, of which a call would take a tenth
    ("run/push_entry.py", "largest_lateness"),
    ("run/push_entry.py", "reached"),
    ("reactive/subjects/alternate.py", "events"),
    ("reactive/subjects/alternate.py", "has_sources"),
    ("reactive/subjects/alternate.py", "reached"),
    ("reactive/subjects/alternate.py", "source"),
    # what a sink of a user is told
    ("run/outlet.py", "numbered"),
    # an argument of the standard library's parser
    ("cli/completion.py", "complete"),
}


def list_targets(node: ast.AST) -> Iterator[ast.Attribute]:
    """Yield the attributes to which a statement assigns."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
        targets = [node.target]
    else:
        return
    while targets:
        target, *targets = targets
        if isinstance(target, ast.Tuple | ast.List):
            targets = [*target.elts, *targets]
        elif isinstance(target, ast.Attribute):
            yield target


def is_own(target: ast.Attribute) -> bool:
    """Return True if an object writes an attribute of its own."""
    return isinstance(target.value, ast.Name) and target.value.id in ("self", "cls")


def list_attributes(defined: ast.ClassDef) -> Iterator[str]:
    """Yield the names of the attributes that a class itself gives its objects."""
    for node in ast.walk(defined):
        yield from (target.attr for target in list_targets(node) if is_own(target))
    for node in defined.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id
            if node.targets[0].id == "__slots__":
                yield from ast.literal_eval(node.value)
        elif isinstance(node, ast.FunctionDef):
            yield from (node.name for each in node.decorator_list if "setter" in ast.unparse(each))


def find_foreign(trees: Mapping[str, ast.Module]) -> set[tuple[str, str]]:
    """Return the modules that write an attribute of a class of another one, and its name.

    The names that begin with two underscores are the language's.
    """
    own: dict[str, set[str]] = defaultdict(set)
    classes: dict[str, list[ast.ClassDef]] = {}
    for name, tree in trees.items():
        classes[name] = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for defined in classes[name]:
            own[defined.name] |= {*list_attributes(defined)}
    bases = {
        defined.name: [ast.unparse(base).split("[")[0].split(".")[-1] for base in defined.bases]
        for found in classes.values()
        for defined in found
    }

    def inherit(of: str) -> set[str]:
        return own[of].union(*(inherit(base) for base in bases.get(of, []) if base != of))

    known = {each for each in set().union(*own.values()) if not each.startswith("__")}
    foreign = set()
    for name, tree in trees.items():
        others = known.difference(*(inherit(defined.name) for defined in classes[name]))
        for node in ast.walk(tree):
            for target in list_targets(node):
                if target.attr in others and not is_own(target):
                    foreign.add((name, target.attr))
    return foreign


def test_no_module_writes_the_attributes_of_others() -> None:
    """What is written from outside has a method, but where the list above says why."""
    assert find_foreign(parse_package()) == ALLOWED


def test_an_attribute_of_another_module_is_found() -> None:
    """An assignment, one of several, and one that adds; a subclass is at home, and so is self."""
    base = "class Meter:\n    def __init__(self):\n        self.cti = self.rows = 0\n"
    sources = {
        "meter.py": base + "def reset(meter):\n    meter.cti = 0\n",
        "assigned.py": "meter.cti = 1\n",
        "several.py": "x, [meter.rows, y] = read()\n",
        "added.py": "meter.rows += 1\n",
        "subclass.py": "class Stage(Meter):\n    pass\nstage.cti = 1\n",
        "other.py": "client.on_message = print\n",
    }
    trees = {name: ast.parse(text) for name, text in sources.items()}
    assert find_foreign(trees) == {
        ("assigned.py", "cti"),
        ("several.py", "rows"),
        ("added.py", "rows"),
    }
