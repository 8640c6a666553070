"""Messages without a channel: publishes that wait for their gate, and messages taken from a queue."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.content.properties import Properties
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused, HeldTooLong, NotFound, NotOnDisk, PreconditionFailed
from penstock.flow.wait import Wait
from penstock.operations import messages
from penstock.operations.messages import BASE64_AT_ONCE, BYTES_AT_ONCE, BYTES_MOST, MESSAGES_AT_ONCE
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue
from tests.support.operation_calls import ask, request_of

PUBLISH = "POST /exchanges/{vhost}/{name}/publish"
GET = "POST /queues/{vhost}/{name}/get"
TAKE_ALL = {"ackmode": "ack_requeue_false", "count": 1000, "encoding": "auto"}


def message(payload: str = "x", **more: object) -> dict[str, object]:
    return {"name": "amq.default", "properties": {}, "routing_key": "q", "payload": payload,
            "payload_encoding": "string", **more}  # fmt: skip


def publish(driver: BrokerDriver, payload: str = "x", **more: object) -> Any:
    return ask(driver, PUBLISH, message(payload, **more), access=access_of(driver.broker))


def get(driver: BrokerDriver, **more: object) -> Any:
    return ask(driver, GET, {"name": "q", **TAKE_ALL, **more}, access=access_of(driver.broker))


def pauses(driver: BrokerDriver, run: Any, **fields: object) -> tuple[Any, list[Wait | None]]:
    """Return the answer of an operation and its pauses, with a turn of the broker at each."""
    found: list[Wait | None] = []
    steps = run(driver, request_of(driver, **fields)).steps
    while True:
        try:
            found.append(next(steps))
        except StopIteration as end:
            return end.value, found
        driver.run_turn()


@pytest.fixture
def queue(driver: BrokerDriver) -> Queue:
    driver.begin(100.0)
    Dialogue(driver).declare("q")
    return driver.broker.vhost("/").queue("q")


def test_publish_is_answered_after_its_confirm(driver: BrokerDriver, queue: Queue) -> None:
    assert publish(driver, properties={"type": "t", "headers": {"a": 1}}) == {"routed": True}
    (row,) = get(driver)
    assert (row["payload"], row["payload_encoding"], row["payload_bytes"]) == (b"x", "string", 1)
    assert (row["exchange"], row["routing_key"], row["message_count"]) == ("", "q", 0)
    assert row["properties"] == {"headers": {"a": 1}, "type": "t"}
    assert publish(driver, routing_key="nowhere") == {"routed": False}


def test_publish_is_held_at_a_closed_gate_until_its_deadline(driver: BrokerDriver) -> None:
    driver.begin(100.0)
    Dialogue(driver).declare("q", capacity_messages=1, stop_messages=1, resume_messages=0, hold_deadline=5)
    assert publish(driver) == {"routed": True}
    steps = messages.publish(driver, request_of(driver, **message())).steps
    wait = next(steps)
    assert wait is not None
    assert (wait.is_over, wait.timeout_s) == (False, 10.0)
    driver.begin(106.0)
    driver.run_turn()
    assert wait.is_over
    with pytest.raises(HeldTooLong, match="refused after its hold deadline of 5 s") as held:
        next(steps)
    assert (held.value.http_status, held.value.finer_word, held.value.retriable) == (503, "held_too_long", True)


def test_publish_whose_time_is_up_is_said_to_be_in_its_queue_only(driver: BrokerDriver) -> None:
    driver.begin(100.0)
    Dialogue(driver).declare("q", capacity_messages=9, stop_messages=1, resume_messages=0, hold_deadline=0)
    publish(driver)
    steps = messages.publish(driver, request_of(driver, **message())).steps
    wait = next(steps)
    assert wait is not None and not wait.is_over  # noqa: PT018 - one condition.
    with pytest.raises(NotOnDisk, match="not on the disk; it may be lost"):
        next(steps)


def test_publish_that_is_given_up_at_its_gate_leaves_no_waiter(driver: BrokerDriver) -> None:
    driver.begin(100.0)
    Dialogue(driver).declare("q", capacity_messages=1, stop_messages=1, resume_messages=0, hold_deadline=0)
    publish(driver)
    gate = driver.broker.vhost("/").queue("q").gate
    steps = messages.publish(driver, request_of(driver, **message())).steps
    next(steps)
    assert gate.in_line() == 1
    steps.close()
    assert gate.in_line() == 0


def test_publish_drops_the_payload_of_its_request_while_it_waits(driver: BrokerDriver) -> None:
    driver.begin(100.0)
    Dialogue(driver).declare("q", capacity_messages=1, stop_messages=1, resume_messages=0, hold_deadline=0)
    publish(driver)
    request = request_of(driver, **message("x" * 1000))
    steps = messages.publish(driver, request).steps
    next(steps)
    assert request.fields == {}
    steps.close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"properties": {"delivery_mode": "2"}}, "'delivery_mode' must be a whole number from 0 to 255"),
        ({"properties": {"priority": True}}, "'priority' must be a whole number from 0 to 255"),
        ({"properties": {"headers": ["k"]}}, "'headers' must be an object, not"),
        ({"properties": {"type": 1}}, "'type' must be a string"),
        ({"payload_encoding": "hex"}, "payload_encoding must be string or base64, not 'hex'"),
        ({"payload_encoding": "base64", "payload": "$"}, "the payload is not base64"),
        ({"payload_encoding": "base64", "payload": "eA==" + "A" * BASE64_AT_ONCE}, "the payload is not base64"),
        ({"payload": 5}, "'payload' must be a string, not 5"),
        ({"routing_key": "k" * 256}, "a routing key has 255 bytes at most"),
    ],
)
def test_publish_with_a_wrong_field_is_refused(
    driver: BrokerDriver, queue: Queue, change: dict[str, object], words: str
) -> None:
    with pytest.raises(PreconditionFailed, match=words):
        publish(driver, **change)
    assert queue.depth_messages() == 0


def test_publish_to_an_exchange_that_may_not_be_written_to_is_refused(driver: BrokerDriver, queue: Queue) -> None:
    driver.broker.access.put_user("reader", None, ["management"])
    with pytest.raises(AccessRefused):
        ask(driver, PUBLISH, message(), access=access_of(driver.broker, "reader"))
    with pytest.raises(NotFound, match="no exchange 'none'"):
        publish(driver, name="none")


def test_payload_in_base64_is_decoded_in_slices(driver: BrokerDriver, queue: Queue) -> None:
    fields = message("AAAA" * (BASE64_AT_ONCE // 2), payload_encoding="base64")
    answer, found = pauses(driver, messages.publish, **fields)
    assert (answer, found.count(None)) == ({"routed": True}, 1)
    (row,) = get(driver)
    assert row["payload_bytes"] == 3 * BASE64_AT_ONCE // 2


def test_messages_are_taken_some_at_a_time_and_settled_at_the_end(driver: BrokerDriver, queue: Queue) -> None:
    for number in range(50):
        publish(driver, str(number))
    rows, found = pauses(driver, messages.take, name="q", **TAKE_ALL)
    assert [row["payload"] for row in rows] == [b"%d" % number for number in range(50)]
    assert len(found) == 50 // MESSAGES_AT_ONCE
    assert queue.depth_messages() == 0


@pytest.mark.parametrize(("mode", "left"), [("ack_requeue_true", 2), ("reject_requeue_true", 2),
                                            ("ack_requeue_false", 0), ("reject_requeue_false", 0)])  # fmt: skip
def test_ack_mode_requeues_or_removes_messages(driver: BrokerDriver, queue: Queue, mode: str, left: int) -> None:
    for _ in range(2):
        publish(driver)
    assert len(get(driver, ackmode=mode)) == 2
    assert (queue.depth_messages(), queue.waiting()) == (left, left)


def grouped(driver: BrokerDriver, *messages: tuple[str, str], **arguments: object) -> Queue:
    """Declare queue `q` with groups, and publish messages: payload and group."""
    driver.begin(100.0)
    Dialogue(driver).declare("q", group_by="group-id", **arguments)
    for payload, group in messages:
        publish(driver, payload, properties={"headers": {"JMSXGroupID": group}})
    return driver.broker.vhost("/").queue("q")


@pytest.mark.parametrize("mode", ["ack_requeue_true", "ack_requeue_false"])
def test_get_takes_no_message_of_a_group_that_a_consumer_holds(driver: BrokerDriver, mode: str) -> None:
    queue = grouped(driver, ("a", "one"), ("b", "one"), ("c", "two"), ("d", "two"), ("e", "one"))
    session = Session()
    assert session.get(queue, False, 100.0) is not None
    assert [row["payload"] for row in get(driver, ackmode=mode)] == [b"c", b"d"]
    session.unsettled.acknowledge(0, True, 100.0)
    left = [b"b", b"e"] if mode == "ack_requeue_false" else [b"b", b"c", b"d", b"e"]
    assert sorted(row["payload"] for row in get(driver)) == left
    assert queue.depth_messages() == 0


def test_get_of_a_queue_whose_groups_are_all_held_is_empty(driver: BrokerDriver) -> None:
    queue = grouped(driver, ("a", "one"), ("b", "one"))
    session = Session()
    assert session.get(queue, False, 100.0) is not None
    assert get(driver) == []
    assert queue.depth_messages() == 2


def test_get_leaves_a_message_of_a_group_that_has_no_room_in_the_answer(driver: BrokerDriver) -> None:
    size = BYTES_MOST // 2 + 1
    queue = grouped(driver, ("a" * size, "one"), ("b" * size, "one"))
    assert [len(row["payload"]) for row in get(driver)] == [size]
    assert (queue.waiting(), queue.depth_messages()) == (1, 1)
    assert [row["payload"][:1] for row in get(driver)] == [b"b"]


def test_get_refuses_a_message_of_a_group_that_fits_into_no_answer(driver: BrokerDriver) -> None:
    queue = grouped(driver)
    content = driver.broker.formats.encode(Properties(headers={"JMSXGroupID": "one"}), b"x" * (BYTES_MOST + 1))
    queue.enqueue(Envelope("", "q"), content, 100, 100.0)
    with pytest.raises(PreconditionFailed, match=r"^the message has 4,194,305 bytes; an answer has at most 4,194,304"):
        get(driver)
    assert (queue.waiting(), queue.depth_messages()) == (1, 1)


def test_get_that_is_given_up_puts_its_messages_back(driver: BrokerDriver, queue: Queue) -> None:
    for _ in range(30):
        publish(driver)
    steps = messages.take(driver, request_of(driver, name="q", **TAKE_ALL)).steps
    assert next(steps) is None
    assert queue.waiting() == 30 - MESSAGES_AT_ONCE
    steps.close()
    assert (queue.waiting(), queue.depth_messages()) == (30, 30)


def test_binary_body_is_returned_in_base64(driver: BrokerDriver, queue: Queue) -> None:
    publish(driver, "//4=", payload_encoding="base64")
    publish(driver, "grüße")
    first, second = get(driver, ackmode="ack_requeue_true")
    assert (first["payload"], first["payload_encoding"]) == (b"//4=", "base64")
    assert (second["payload"], second["payload_encoding"]) == ("grüße".encode(), "string")
    rows = get(driver, encoding="base64", truncate="2")
    assert [row["payload"] for row in rows] == [b"//4=", b"Z3I="]


def test_long_body_is_read_in_slices(driver: BrokerDriver, queue: Queue) -> None:
    publish(driver, "é" * BYTES_AT_ONCE)
    (row,), found = pauses(driver, messages.take, name="q", **TAKE_ALL)
    assert row["payload"] == "é".encode() * BYTES_AT_ONCE
    assert len(found) >= 2


def test_answer_ends_before_the_message_that_exceeds_its_bytes(driver: BrokerDriver, queue: Queue) -> None:
    for _ in range(2):
        publish(driver, "x" * (BYTES_MOST // 2 + 1))
    assert len(get(driver, ackmode="ack_requeue_true")) == 1
    assert [row["payload"] for row in get(driver, truncate=3)] == [b"xxx", b"xxx"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ackmode": "maybe"}, "ackmode must be one of ack_requeue_true"),
        ({"encoding": "hex"}, "Unsupported encoding"),
        ({"count": "x"}, "'count' must be a whole number from 0, not 'x'"),
        ({"count": -1}, "'count' must be a whole number from 0, not -1"),
        ({"truncate": True}, "'truncate' must be a whole number from 0, not true"),
    ],
)
def test_get_with_a_wrong_field_is_refused(
    driver: BrokerDriver, queue: Queue, change: dict[str, object], words: str
) -> None:
    with pytest.raises(PreconditionFailed, match=words):
        get(driver, **change)


def test_gets_are_counted_for_the_user_and_the_virtual_host(driver: BrokerDriver, queue: Queue) -> None:
    publish(driver)
    before = int(driver.broker.gates.counts_of_user("guest").get)
    get(driver)
    assert int(driver.broker.gates.counts_of_user("guest").get) == before + 1


def test_properties_of_a_publish_have_amqps_names(driver: BrokerDriver, queue: Queue) -> None:
    given = {"content_type": "a/b", "delivery_mode": 2, "priority": 3, "timestamp": 5, "cluster_id": "c", "other": 1}
    publish(driver, properties=given)
    stored = queue.ready_queue.next()
    assert stored is not None
    found = driver.broker.formats.find(stored.content).properties(stored.content)
    expected = Properties(content_type="a/b", delivery_mode=2, priority=3, timestamp=5, cluster_id="c")
    assert found.as_dict() == expected.as_dict()
