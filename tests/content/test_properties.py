"""Neutral properties of a message."""

from __future__ import annotations

import pytest

from penstock.content.properties import PROPERTY_NAMES, TEXT_PROPERTIES, Properties


def test_properties_that_are_absent_are_left_out_and_the_order_is_fixed() -> None:
    made = Properties(cluster_id="c", content_type="t", headers={})
    assert list(made.as_dict().items()) == [("content_type", "t"), ("headers", {}), ("cluster_id", "c")]
    assert repr(made) == "Properties(content_type='t', headers={}, cluster_id='c')"


def test_properties_are_equal_by_value_and_have_no_hash() -> None:
    assert Properties(priority=1) == Properties(priority=1) != Properties(priority=2)
    assert Properties() != {}
    with pytest.raises(TypeError):
        hash(Properties())


def test_properties_that_are_texts_are_all_but_tables_numbers_and_the_reserved_one() -> None:
    others = {"headers", "delivery_mode", "priority", "timestamp", "cluster_id"}
    assert sorted(TEXT_PROPERTIES) == sorted(name for name in PROPERTY_NAMES if name not in others)
