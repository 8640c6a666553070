"""Names near to a text."""

from __future__ import annotations

import pytest

from penstock.operations.near_names import NEAR_MOST, NearNames


@pytest.mark.parametrize(
    ("text", "names", "near"),
    [
        ("ordres", ["orders", "stock", "orders.dead"], ["orders", "orders.dead"]),
        ("INVOCIES", ["invoices", "voices"], ["invoices", "voices"]),
        ("thumb", ["stock", "orders"], []),
        ("x", ["orders", "stock"], []),
        ("orders", [], []),
        ("ordre", ["orders", "order", "disorder"], ["order", "orders"]),
    ],
)
def test_names_with_common_letters_are_near_the_nearest_first(text: str, names: list[str], near: list[str]) -> None:
    found = NearNames(text)
    for name in names:
        found.offer([name], {"name": name})
    assert [row["name"] for row in found.rows()] == near
    assert len(near) <= NEAR_MOST


def test_object_is_as_near_as_its_nearest_name() -> None:
    found = NearNames("web-1")
    found.offer(["con:7(guest@127.0.0.1:1/)", "web-2"], {"name": "con:7"})
    (row,) = found.rows()
    assert row["name"] == "con:7"
    assert row["nearness"] == 0.778
