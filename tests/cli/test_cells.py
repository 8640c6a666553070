"""Widths of texts in cells of a terminal, as the terminal of the tests draws them."""

from __future__ import annotations

import pyte
import pytest

from penstock.cli.cells import beginning, cut, width

TEXTS = ("", "orders", "注文キュー", "заказы", "e\u0301te\u0301", "🙂-queue", "ﾊﾝｶｸ", "Ａ", "a\u20dd")


@pytest.mark.parametrize("text", TEXTS)
def test_width_is_that_of_a_terminal(text: str) -> None:
    screen = pyte.Screen(40, 1)
    pyte.Stream(screen).feed(text)
    assert width(text) == screen.cursor.x


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("cells", range(13))
def test_cut_text_has_at_most_its_cells_and_begins_as_the_whole(text: str, cells: int) -> None:
    found = cut(text, cells)
    assert width(found) <= cells
    if width(text) <= cells:
        assert found == text
    elif cells:
        assert found.endswith("…")
        assert text.startswith(found[:-1])
        assert width(found) >= cells - 1, "a wide character leaves one cell empty at most"


def test_beginning_ends_before_a_character_that_does_not_fit() -> None:
    assert beginning("注文", 3) == "注"
    assert beginning("e\u0301te\u0301", 1) == "e\u0301", "an accent belongs to its character"
    assert beginning("abc", 5) == "abc"
