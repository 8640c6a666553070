"""The choice of messages: by key, header, body and reason, for a look and for transfers."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.content.properties import Properties
from penstock.core.message import Envelope
from penstock.driver.driver import BrokerDriver
from penstock.errors import PreconditionFailed
from penstock.operations.message_filter import fits
from tests.operations.test_transfers import bodies, declare, reject
from tests.support.access_of import access_of
from tests.support.operation_calls import ask


def put(driver: BrokerDriver, key: str, body: bytes, **headers: object) -> None:
    content = driver.broker.formats.encode(Properties(headers=headers or None), body)
    driver.broker.vhosts["/"].queues["orders"].enqueue(Envelope("x", key), content, 100, driver.broker.now)


@pytest.fixture
def orders(driver: BrokerDriver) -> BrokerDriver:
    declare(driver, "orders", x_dead_letter_exchange="", x_dead_letter_routing_key="dead")
    declare(driver, "dead")
    put(driver, "order.new", b'{"customer": "c-412"}', trace="abc", times=3)
    put(driver, "order.paid", b"paid", trace="abd", urgent=True)
    put(driver, "stock", b"c-412 again")
    return driver


def found(driver: BrokerDriver, queue: str = "orders", **fields: object) -> list[int]:
    page: Any = ask(driver, "messages.browse", {"queue": queue, **fields}, access=access_of(driver.broker))
    return [each["position"] for each in page["messages"]]


@pytest.mark.parametrize(
    ("fields", "positions"),
    [
        ({}, [1, 2, 3]),
        ({"key": "order.*"}, [1, 2]),
        ({"key": "order"}, []),
        ({"key": "*"}, [1, 2, 3]),
        ({"header": "trace=abc"}, [1]),
        ({"header": ["times=3"]}, [1]),
        ({"header": ["urgent=true"]}, [2]),
        ({"header": ["trace=abc", "times=4"]}, []),
        ({"header": "none="}, []),
        ({"body": "c-412"}, [1, 3]),
        ({"body": "c-412", "key": "*o*k"}, [3]),
        ({"filter": "times = 3", "body": "paid"}, []),
        ({"reason": "rejected"}, []),
    ],
)
def test_look_shows_messages_for_which_all_conditions_hold(
    orders: BrokerDriver, fields: dict[str, object], positions: list[int]
) -> None:
    assert found(orders, **fields) == positions


def test_reason_chooses_dead_letters_by_their_last_death(orders: BrokerDriver) -> None:
    reject(orders, "orders", 2)
    assert found(orders, "dead", reason="rejected") == [1, 2]
    assert found(orders, "dead", reason="expired") == []
    assert found(orders, "dead", reason="unknown") == []
    assert found(orders, "orders", reason="unknown") == [3]
    assert found(orders, "dead", reason="rejected", header="trace=abd") == [2]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"header": "trace"}, "'header' must have texts NAME=VALUE, not 'trace'"),
        ({"header": ["=x"]}, "'header' must have texts NAME=VALUE, not '=x'"),
        ({"header": [3]}, "'header' must have texts NAME=VALUE, not 3"),
        ({"header": 3}, "'header' must be at most 10 texts NAME=VALUE, not 3"),
        ({"body": "x" * 1001}, "'body' has 1,001 characters; at most 1,000 are permitted"),
        ({"key": 3}, "'key' must be a string, not 3"),
    ],
)
def test_condition_that_is_malformed_is_refused(orders: BrokerDriver, fields: dict[str, object], reason: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        found(orders, **fields)
    assert str(refused.value) == reason


@pytest.mark.parametrize(
    ("pattern", "text", "does"),
    [
        ("a*b", "ab", True), ("a*b", "axxb", True), ("a*b", "axx", False), ("a*a", "a", False), ("*", "", True),
        ("*a*b*", "xaxbx", True), ("*a*b*", "xbxax", False), ("a", "a", True), ("a", "ab", False),
        ("*a" * 50, "a" * 49, False),
    ],
)  # fmt: skip
def test_pattern_of_a_key_has_any_text_at_each_asterisk(pattern: str, text: str, does: bool) -> None:
    assert fits(pattern.split("*"), text) is does


def request(driver: BrokerDriver, operation: str, **fields: object) -> Any:
    return ask(driver, operation, {"queue": "orders", **fields}, access=access_of(driver.broker))


def test_chosen_positions_are_moved_and_missing_ones_counted(orders: BrokerDriver) -> None:
    answer = request(orders, "queue.move", target="dead", positions=[3, 1, 99])
    assert (answer["moved"], answer["unmatched"], answer["missing"], answer["left"]) == (2, 0, 1, 0)
    assert bodies(orders, "dead") == [b'{"customer": "c-412"}', b"c-412 again"]
    assert bodies(orders, "orders") == [b"paid"]


@pytest.mark.parametrize("positions", [[1, 0], "1,0", "1,", [], "a", [True], 3, list(range(1, 1002))])
def test_positions_that_are_no_positions_are_refused(orders: BrokerDriver, positions: object) -> None:
    for operation, fields in (("queue.move", {"target": "dead"}), ("messages.browse", {})):
        with pytest.raises(PreconditionFailed, match=r"'positions' must be a list of 1 to 1,000 positions of messages"):
            request(orders, operation, positions=positions, **fields)


def test_condition_and_positions_must_both_hold(orders: BrokerDriver) -> None:
    answer = request(orders, "queue.move", target="dead", positions=[1, 3], key="stock")
    assert (answer["moved"], answer["unmatched"], answer["missing"]) == (1, 1, 0)


def test_chosen_messages_are_deleted_without_dead_letters(orders: BrokerDriver) -> None:
    queue = orders.broker.vhosts["/"].queues["orders"]
    answer = request(orders, "messages.delete", positions=[2])
    assert (answer["deleted"], answer["bytes"], answer["target"]) == (1, 100, "nowhere")
    assert (int(queue.messages), int(queue.bytes)) == (2, 200)
    assert request(orders, "messages.delete", body="c-412")["deleted"] == 2
    assert (int(queue.messages), int(queue.bytes), bodies(orders, "dead")) == (0, 0, [])


def test_deletion_opens_the_gate_of_its_queue(driver: BrokerDriver) -> None:
    declare(driver, "orders", capacity_messages=10, stop_messages=2, resume_messages=1)
    for number in range(4):
        put(driver, f"k{number}", b"x")
    queue = driver.broker.vhosts["/"].queues["orders"]
    queue.update_gate(driver.broker.now)
    assert not queue.gate.open
    request(driver, "messages.delete", positions=[1, 2, 4])
    assert queue.gate.open


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "give 'positions' or one of filter, key, header, body, reason: to drop all messages of queue 'orders', "
             "purge it"),
        ({"positions": []}, "'positions' must be a list of 1 to 1,000 positions of messages, not 0 entries"),
        ({"positions": 1}, "'positions' must be a list of 1 to 1,000 positions of messages, not 1"),
        ({"positions": [1, 0]}, "'positions' must be a list of 1 to 1,000 positions of messages, and 0 is none"),
        ({"positions": [True]}, "'positions' must be a list of 1 to 1,000 positions of messages, and true is none"),
        ({"positions": [1, "1"]}, "'positions' must be a list of 1 to 1,000 positions of messages, and '1' is none"),
        ({"positions": list(range(1, 1002))}, "'positions' must be a list of 1 to 1,000 positions of messages, not "
         "1,001 entries"),
    ],
)  # fmt: skip
def test_deletion_without_a_choice_is_refused(orders: BrokerDriver, fields: dict[str, object], reason: str) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        request(orders, "messages.delete", **fields)
    assert str(refused.value) == reason


def test_rate_that_is_no_whole_number_is_refused(orders: BrokerDriver) -> None:
    with pytest.raises(PreconditionFailed, match=r"^'rate' must be a whole number from 1 to 1000000, not 0$"):
        request(orders, "queue.move", target="dead", rate=0)


def test_deletion_is_of_the_queue_of_its_virtual_host(orders: BrokerDriver) -> None:
    other = orders.broker.add_vhost("other").declare_queue("orders", {}, False, False, None, None)
    for key in ("stock", "stock"):
        other.enqueue(Envelope("x", key), orders.broker.formats.encode(Properties(), b"x"), 100, orders.broker.now)
    fields = {"queue": "orders", "key": "stock"}
    answer = ask(orders, "messages.delete", fields, vhost="other", access=access_of(orders.broker))
    assert (answer["deleted"], int(other.messages)) == (2, 0)
    assert int(orders.broker.vhosts["/"].queues["orders"].messages) == 3
