"""Control requests over AMQP: bounded in bytes and values, and charged to their client."""

from __future__ import annotations

import pytest

from penstock.client.errors import ControlError
from penstock.connections.control_request import IMPORT_OCTETS, REQUEST_OCTETS
from penstock.content.properties import Properties
from penstock.describe.list_kinds import ITEM_WORK, QUEUES_AT_ONCE
from penstock.describe.lists import PAGE_MOST
from penstock.flow.work import LOOKING_SHARE
from penstock.sync import connect
from tests.support.brokers import BrokerProcess
from tests.support.control_requests import request, turns_until_answered, with_queues
from tests.support.driven_connection import Dialogue, make_driver, publish


@pytest.mark.parametrize(
    ("operation", "field", "size", "bound"),
    [
        ("list", "kind", REQUEST_OCTETS, f"{REQUEST_OCTETS:,}"),
        ("cursor.attach", "cursor", 5 << 20, f"{REQUEST_OCTETS:,}"),
        ("definitions.import", "definitions", IMPORT_OCTETS, f"{IMPORT_OCTETS:,}"),
    ],
)
def test_request_that_is_too_large_is_refused_with_its_size_and_the_bound(
    broker: BrokerProcess, operation: str, field: str, size: int, bound: str
) -> None:
    with connect(broker.url, protocol="amqp091") as control:
        with pytest.raises(ControlError, match=f"for '{operation}' has {size + len(field) + 7:,} bytes; .* {bound}"):
            control.request(operation, **{field: "x" * size})
        assert control.status()["version"]


def test_request_of_many_values_is_refused(broker: BrokerProcess) -> None:
    too_many = pytest.raises(ControlError, match=r"about 20,00\d values; the most is 10,000")
    with connect(broker.url, protocol="amqp091") as control, too_many:
        control.request("list", kind=[0] * 20_000)


def test_definitions_in_a_request_that_cannot_be_meant_are_refused(broker: BrokerProcess) -> None:
    with connect(broker.url, protocol="amqp091") as control:
        for definitions, reason in ((7, "must be a string"), ("{", "line 1"), ('{"queues":[7]}', "queues.0.")):
            with pytest.raises(ControlError, match=reason):
                control.request("definitions.import", definitions=definitions)


def test_export_counts_its_list_as_work_and_takes_slices() -> None:
    costs = turns_until_answered(with_queues(), request("definitions.export", section="queues"))
    assert len(costs) >= PAGE_MOST * ITEM_WORK // (LOOKING_SHARE + QUEUES_AT_ONCE)
    assert max(costs) <= LOOKING_SHARE + QUEUES_AT_ONCE


def test_body_of_a_request_that_is_too_large_for_any_is_not_kept_while_it_comes() -> None:
    driver = make_driver()
    driver.broker.vhosts["/"].declare_queue("answers", {}, False, False, None, None)
    client = Dialogue(driver)
    asked = publish(
        "list",
        b"x" * (IMPORT_OCTETS + 1),
        properties=Properties(reply_to="answers"),
        exchange="penstock.control",
        frame_max=65536,
    )
    most = 0
    for start in range(0, len(asked), 131072):
        driver.scheduler.receive(client.connection, asked[start : start + 131072])
        driver.run_turn()
        driver.scheduler.begin_turn()
        most = max(most, int(driver.services.partial_messages.pool.taken))
    assert most < 131072
    assert int(driver.broker.vhosts["/"].queues["answers"].waiting()) == 1
