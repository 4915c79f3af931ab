"""The pictures of the docs are those that the code on their pages draws."""

from __future__ import annotations

from pathlib import Path

import layers_picture
import pytest
from diagrams import DOCS, draw_page, is_current, list_pages


def test_the_picture_of_the_layers_is_current() -> None:
    """``python tests/support/layers_picture.py`` draws it."""
    assert (DOCS / "layers.svg").read_text("utf-8") == layers_picture.draw()


@pytest.mark.parametrize("page", list_pages(), ids=lambda page: page.stem)
def test_the_pictures_of_a_page_are_current(page: Path) -> None:
    """``python tests/support/diagrams.py`` draws them."""
    assert [path.name for path, svg in draw_page(page) if not is_current(path, svg)] == []
