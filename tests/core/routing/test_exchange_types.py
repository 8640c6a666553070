"""The table of exchange types: each type is made by its name, and listed with a description."""

from __future__ import annotations

import pytest

from penstock.core.routing.exchange_types import DESCRIPTIONS, EXCHANGE_TYPES, make_exchange
from penstock.describe.vhost import exchange_types
from penstock.errors import PreconditionFailed


@pytest.mark.parametrize("kind", EXCHANGE_TYPES)
def test_exchange_is_of_the_class_of_its_type(kind: str) -> None:
    made = make_exchange(kind, "/", "x")
    assert type(made) is EXCHANGE_TYPES[kind]
    assert (made.kind, made.vhost, made.name) == (kind, "/", "x")


def test_unknown_type_is_refused_with_a_near_one() -> None:
    with pytest.raises(PreconditionFailed, match=r"unknown exchange type 'x-randon'; did you mean 'x-random'\?"):
        make_exchange("x-randon", "/", "x")


def test_types_are_listed_with_descriptions() -> None:
    rows = {row["name"]: row["description"] for row in exchange_types()}
    assert rows.keys() == EXCHANGE_TYPES.keys()
    assert rows["topic"] == "AMQP topic exchange, as per the AMQP specification"
    assert {name: rows[name] for name in DESCRIPTIONS} == DESCRIPTIONS
    assert DESCRIPTIONS.keys() == {name for name in EXCHANGE_TYPES if name.startswith("x-")}
