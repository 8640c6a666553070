"""Methods of AMQP 0-9-1 and rows of the access table: each has the other."""

from __future__ import annotations

import pytest

from penstock.protocols.amqp091.methods import CHANNEL_METHODS
from penstock.wire.amqp091 import spec
from tests.support import access_matrix
from tests.support.access_needs import AMQP_0_9_1, AMQP_1_0

BEFORE_TABLES = {
    "connection.open", "connection.update-secret", "channel.open", "channel.close", "basic.publish",
}  # fmt: skip
"""Methods that methods.py and the frame reader handle without a table."""


def test_method_table_and_access_table_of_amqp091_agree() -> None:
    methods = {spec.METHODS[number].name for number in CHANNEL_METHODS} | BEFORE_TABLES
    assert {row.partition(",")[0] for row in AMQP_0_9_1} == methods


def test_access_rows_of_amqp091_are_all_tried_or_excused() -> None:
    tried = set(access_matrix.METHODS) | set(access_matrix.PUBLISHES)
    assert tried.isdisjoint(access_matrix.ELSEWHERE)
    assert tried | set(access_matrix.ELSEWHERE) == set(AMQP_0_9_1)


@pytest.mark.parametrize("table", [AMQP_0_9_1, AMQP_1_0], ids=["AMQP 0-9-1", "AMQP 1.0"])
def test_needs_are_a_kind_and_an_object(table: dict[str, tuple[str, ...]]) -> None:
    for row, needs in table.items():
        for need in needs:
            assert need.partition(" ")[0] in ("configure", "write", "read", "a"), row
