"""Near match of a name."""

from __future__ import annotations

import pytest

from penstock.setting_names.near import nearest


@pytest.mark.parametrize(
    ("name", "near"), [("ordres", "orders"), ("order", "orders"), ("orders.us", "orders.eu"), ("zzz", ""), ("", "")]
)
def test_nearest_name_is_found(name: str, near: str) -> None:
    assert nearest(name, ("orders", "bills", "orders.eu")) == near


def test_less_similar_names_are_left_out() -> None:
    assert nearest("ordres", iter(["orders"]), cutoff=0.9) == ""
