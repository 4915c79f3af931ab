"""The pages of the operators: one for each, with the facts of its description."""

from __future__ import annotations

import operator_pages
import pytest

from rxtemporal import operators as ops

MAKE = "make the generated parts anew: python tests/support/operator_pages.py"
NAMES = sorted((*ops.__all__, *operator_pages.RESULTS))


def test_each_operator_has_a_page() -> None:
    """``docs/operators`` has a page for each operator and for nothing else.

    So these pages are the list of the operators' public names.
    """
    pages = sorted(page.stem for page in operator_pages.FOLDER.glob("*.md"))
    assert pages == NAMES, "write docs/operators/NAME.md: a copy of another page, with an example"


@pytest.mark.parametrize("name", NAMES)
def test_the_facts_on_a_page_are_current(name: str) -> None:
    """``python tests/support/operator_pages.py`` writes the generated parts."""
    page = (operator_pages.FOLDER / f"{name}.md").read_text("utf-8")
    assert page == operator_pages.generate(page, name), MAKE


def test_the_reference_lists_each_operator() -> None:
    """``python tests/support/operator_pages.py`` writes the list of the reference."""
    page = operator_pages.REFERENCE.read_text("utf-8")
    assert page == operator_pages.generate_reference(page), MAKE


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_an_example_and_its_picture(name: str) -> None:
    """A page shows what the operator does to rows and lifetimes, drawn from its example."""
    page = (operator_pages.FOLDER / f"{name}.md").read_text("utf-8")
    assert f".{name}(" in page.partition("```python")[2]
    assert f"](pictures/{name}.svg)" in page
