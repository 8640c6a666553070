"""Every operation of the dispatch tables has a row that says what it needs, and no row is left without an operation."""

from __future__ import annotations

import pytest

from penstock.access.operations import AMQP_0_9_1, AMQP_1_0, CONTROL, HTTP, control_need, http_need
from penstock.access.tags import ADMINISTRATOR, TAGS
from penstock.protocols.amqp091.methods import CHANNEL_METHODS
from penstock.server.http.app import TABLE
from penstock.server.http.metrics import PATHS
from penstock.wire.amqp091 import spec
from tests.support import access_matrix
from tests.support.driven_connection import make_driver

BEFORE_TABLES = {
    "connection.open", "connection.update-secret", "channel.open", "channel.close", "basic.publish",
}  # fmt: skip
"""Methods that dispatch.py and the frame reader handle without a table."""


def without_case(row: str) -> str:
    return row.partition(",")[0]


def test_every_method_of_amqp_0_9_1_has_a_row_and_every_row_a_method() -> None:
    methods = {spec.METHODS[number].name for number in CHANNEL_METHODS} | BEFORE_TABLES
    assert {without_case(row) for row in AMQP_0_9_1} == methods


def test_every_row_of_amqp_0_9_1_is_tried_or_says_why_not() -> None:
    tried = set(access_matrix.METHODS) | set(access_matrix.PUBLISHES)
    assert tried.isdisjoint(access_matrix.ELSEWHERE)
    assert tried | set(access_matrix.ELSEWHERE) == set(AMQP_0_9_1)


def test_every_control_operation_has_a_row_and_every_row_an_operation() -> None:
    assert sorted(CONTROL) == make_driver().control.names()


def test_every_path_of_http_has_a_row_for_each_method() -> None:
    found = {(path, method) for path, methods in TABLE.items() for method in methods} | {
        (path, "GET") for path in PATHS
    }
    assert found == {(path, method) for path, methods in HTTP.items() for method in methods}


@pytest.mark.parametrize("table", [AMQP_0_9_1, AMQP_1_0], ids=["AMQP 0-9-1", "AMQP 1.0"])
def test_needs_are_a_kind_and_an_object(table: dict[str, tuple[str, ...]]) -> None:
    for row, needs in table.items():
        for need in needs:
            assert need.partition(" ")[0] in ("configure", "write", "read", "a"), row


def test_tags_of_rows_are_known_ones() -> None:
    tags = {need.tag for need in CONTROL.values()} | {need.tag for row in HTTP.values() for need in row.values()}
    assert tags <= {"", *TAGS}


def test_what_has_no_row_needs_an_administrator() -> None:
    assert control_need("nothing.known").tag == ADMINISTRATOR
    assert http_need("/nothing", "GET").tag == ADMINISTRATOR
    assert http_need("/whoami", "DELETE").tag == ADMINISTRATOR
