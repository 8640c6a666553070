"""Browsing: every message once, in the order of positions, and nothing of the queue changes.

Ready messages of any line, deliveries, messages on the disk, and those that move between these while a request waits.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.access.permission import Permission
from penstock.content.properties import Properties
from penstock.content.selector.selector import parse_selector
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.scan import MessageFilter
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.core.queue.shared_ready_queue import SharedReadyQueue
from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused, InvalidField, NotFound, PreconditionFailed, ResourceLocked
from penstock.management.operation import Waiting
from penstock.operations import browsing
from penstock.operations.browsing import BODY_MOST, EXAMINED_MOST, LIMIT_MOST, SLICE, Browse
from penstock.protocols.amqp091.content_frames import make_content
from tests.profiles import examples
from tests.support.access_of import access_of
from tests.support.attached_cursors import Desk
from tests.support.driven_connection import Dialogue, drain, publish
from tests.support.operation_calls import ask, request_of
from tests.support.paging_broker import house_with, numbered
from tests.support.paging_broker import publish as page

MOST_A_STEP = 64
"""Units by which a step may pass its slice: one row with a body of that many KiB, or a chunk that enters the index."""
Rows = list[dict[str, Any]]


def browsed(driver: BrokerDriver, queue: str = "q", **fields: object) -> dict[str, Any]:
    given = {name.rstrip("_"): value for name, value in fields.items()}
    found = ask(driver, "messages.browse", {"queue": queue, **given}, access=access_of(driver.broker))
    assert isinstance(found, dict)
    return found


def test_body_is_read_in_pieces_of_base64_behind_the_first(client: Dialogue) -> None:
    body = bytes(range(256)) * 8
    client.declare("q")
    client.say(publish("q", body))
    parts = []
    for skip in (0, 1000, 2000, 2048, 9999):
        (row,) = browsed(client.driver, skip=skip, truncate=1000)["messages"]
        assert row["payload_encoding"] == "base64"
        assert row["payload_bytes"] == 2048
        assert row.get("truncated", False) is (skip < 1048)
        parts.append(base64.b64decode(row["payload"]))
    assert b"".join(parts) == body
    (row,) = browsed(client.driver, skip=1)["messages"]
    assert base64.b64decode(row["payload"]) == body[1:]


def all_of(driver: BrokerDriver, queue: str = "q", **fields: object) -> Rows:
    """Return the messages of all pages."""
    rows: Rows = []
    at: int | None = 1
    while at is not None:
        found = browsed(driver, queue, **fields, from_=at)
        rows += found["messages"]
        assert found["next"] is None or found["next"] > at
        at = found["next"]
    return rows


def places(rows: Rows) -> list[tuple[int, str]]:
    return [(row["position"], row["state"]) for row in rows]


@pytest.fixture
def client(driver: BrokerDriver) -> Dialogue:
    driver.begin(100.0)
    return Dialogue(driver).declare("q")


def test_row_of_a_message_has_its_place_its_age_its_properties_and_its_body(client: Dialogue) -> None:
    properties = Properties(message_id="m", headers={"raw": b"\xff", "n": 1})
    client.say(publish("q", b"one", properties=properties) + publish("q", b"\xff\x00"))
    client.driver.begin(103.5)
    first, second = browsed(client.driver)["messages"]
    wall = first.pop("arrived")
    assert wall.endswith("Z")
    assert first == {
        "position": 1,
        "state": "ready",
        "holder": None,
        "client": None,
        "consumer": None,
        "held_s": None,
        "age_s": 3.5,
        "redelivered": False,
        "delivery_count": 0,
        "exchange": "",
        "routing_key": "q",
        "format": "AMQP 0-9-1",
        "properties": {"headers": {"raw": {"$binary": "/w=="}, "n": 1}, "message_id": "m"},
        "payload_bytes": 3,
        "payload": "one",
        "payload_encoding": "string",
    }
    assert (second["payload"], second["payload_encoding"]) == (base64.b64encode(b"\xff\x00").decode(), "base64")


def test_browsing_leaves_marks_counts_and_order_unchanged(client: Dialogue) -> None:
    for number in range(5):
        client.say(publish("q", b"%d" % number))
    queue = client.vhost.queue("q")
    before = (queue.counters.delivered, queue.counters.gets, queue.unacked_messages, queue.settled, queue.messages)
    for _ in range(3):
        assert [row["payload"] for row in all_of(client.driver, limit=2)] == ["0", "1", "2", "3", "4"]
    after = (queue.counters.delivered, queue.counters.gets, queue.unacked_messages, queue.settled, queue.messages)
    assert before == after
    frames = client.consume("q")
    assert b"".join(payload for kind, _, payload in frames if kind == 3) == b"01234"
    assert all(not row["redelivered"] for row in all_of(client.driver))


def test_delivery_is_shown_with_its_holder_and_its_time(client: Dialogue) -> None:
    for number in range(4):
        client.say(publish("q", b"%d" % number))
    client.consume("q", tag="worker", prefetch=2)
    client.driver.begin(107.0)
    rows = all_of(client.driver)
    assert places(rows) == [(1, "unacked"), (2, "unacked"), (3, "ready"), (4, "ready")]
    assert rows[0]["consumer"] == "worker"
    assert rows[0]["holder"] == "con:1(guest@127.0.0.1:1/)/ch:1"
    assert [row["client"] for row in rows] == [None] * 4
    for connection in client.driver.connections.values():
        connection.peer.properties["connection_name"] = "shipping-1"
    assert [row["client"] for row in all_of(client.driver)] == ["shipping-1", "shipping-1", None, None]
    assert rows[0]["held_s"] == 7.0
    assert (rows[2]["holder"], rows[2]["consumer"], rows[2]["held_s"]) == (None, None, None)


def test_holder_of_another_user_is_shown_by_its_number_alone(client: Dialogue) -> None:
    client.say(publish("q", b"x"))
    client.consume("q", tag="worker")
    driver = client.driver
    driver.broker.access.put_user("anna", None, ["management"])
    driver.broker.access.set_permission("anna", "/", Permission("", "", ".*"))
    found = ask(driver, "messages.browse", {"queue": "q"}, access=access_of(driver.broker, "anna"))
    assert [(row["holder"], row["client"]) for row in found["messages"]] == [("con:1", None)]


def test_positions_show_these_messages_and_the_page_with_the_last_is_the_last(client: Dialogue) -> None:
    for number in range(1, 8):
        client.say(publish("q", b"%d" % number))
    client.consume("q", tag="worker", prefetch=2)
    found = browsed(client.driver, positions="2,4,6,99")
    assert places(found["messages"]) == [(2, "unacked"), (4, "ready"), (6, "ready")]
    assert (found["next"], found["examined"]) == (None, 5)
    first = browsed(client.driver, positions=[4, 6], limit=1)
    assert places(first["messages"]) == [(4, "ready")]
    rest = browsed(client.driver, positions=[4, 6], from_=first["next"])
    assert (places(rest["messages"]), rest["next"], rest["examined"]) == ([(6, "ready")], None, 2)


def test_messages_of_priorities_are_in_the_order_of_their_arrival(driver: BrokerDriver) -> None:
    client = Dialogue(driver).declare("q", x_max_priority=5)
    for priority in (0, 5, 2, 5, 0):
        client.say(publish("q", b"%d" % priority, properties=Properties(priority=priority)))
    assert [row["payload"] for row in all_of(driver)] == ["0", "5", "2", "5", "0"]
    for limit in range(1, 5):
        assert [row["position"] for row in all_of(driver, limit=limit)] == [1, 2, 3, 4, 5]
    client.consume("q", prefetch=1)
    assert places(all_of(driver, limit=2)) == [(1, "ready"), (2, "unacked"), *[(n, "ready") for n in (3, 4, 5)]]


def test_filter_selects_messages_and_positions_stay(client: Dialogue) -> None:
    for number in range(10):
        client.say(publish("q", b"%d" % number, properties=Properties(headers={"n": number})))
    client.consume("q", prefetch=3)
    rows = all_of(client.driver, filter="n > 1 AND n < 5", limit=2)
    assert places(rows) == [(3, "unacked"), (4, "ready"), (5, "ready")]


@pytest.mark.parametrize(
    ("fields", "error", "sentence"),
    [
        ({"filter": "n >"}, InvalidField, "'filter' is not a selector: the selector is not valid at character 4: .*"),
        ({"limit": 0}, PreconditionFailed, "'limit' must be a whole number from 1, not 0"),
        (
            {"from": 1 << 63},
            PreconditionFailed,
            "'from' must be a whole number from 0 to 4611686018427387903, not 9",
        ),
        ({"from": "9" * 400}, PreconditionFailed, "'from' must be a whole number from 0, not '99"),
        ({"limit": -1}, PreconditionFailed, "'limit' must be .*-1"),
        ({"from": "x"}, PreconditionFailed, "'from' must be .*'x'"),
        ({"truncate": True}, PreconditionFailed, "'truncate' must be .*true"),
        ({"queue": "none"}, NotFound, "no queue 'none' in vhost '/'"),
    ],
)
def test_invalid_request_is_refused_with_its_field(
    client: Dialogue, fields: Mapping[str, object], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=f"^{sentence}"):
        ask(client.driver, "messages.browse", {"queue": "q", **fields}, access=access_of(client.driver.broker))


def test_queue_without_read_permission_or_of_another_connection_is_refused(client: Dialogue) -> None:
    driver = client.driver
    driver.broker.access.put_user("anna", None, [])
    driver.broker.access.set_permission("anna", "/", Permission(".*", ".*", "^other$"))
    with pytest.raises(AccessRefused, match="queue 'q'"):
        ask(driver, "messages.browse", {"queue": "q"}, access=access_of(driver.broker, "anna"))
    driver.broker.vhosts["/"].declare_queue("mine", {}, False, False, client.connection, client.connection)
    with pytest.raises(ResourceLocked):
        browsed(driver, "mine")


def test_long_body_is_truncated_between_two_characters(client: Dialogue) -> None:
    client.say(publish("q", "aé".encode()) + publish("q", b"\xff" * 10) + publish("q", b"ab"))
    short, raw, whole = browsed(client.driver, truncate=2)["messages"]
    assert (short["payload"], short["payload_bytes"], short["truncated"]) == ("a", 3, True)
    assert (raw["payload_encoding"], raw["truncated"]) == ("base64", True)
    assert (whole["payload"], "truncated" in whole) == ("ab", False)
    assert browsed(client.driver, truncate=BODY_MOST + 1)["messages"][0]["payload"] == "aé"


def test_page_is_bounded_in_bytes_and_has_at_least_one_message(client: Dialogue) -> None:
    for _ in range(3):
        client.say(publish("q", b"x" * browsing.PAGE_BYTES))
    found = browsed(client.driver)
    assert ([row["position"] for row in found["messages"]], found["next"]) == ([1], 2)
    assert len(browsed(client.driver, truncate=10)["messages"]) == 3


def test_request_examines_a_bounded_number_of_messages(client: Dialogue) -> None:
    queue = client.vhost.queue("q")
    content = make_content(Properties(), b"")
    for _ in range(EXAMINED_MOST + 10):
        queue.enqueue(Envelope("", "q"), content, 240, 100.0)
    found = browsed(client.driver, filter="n = 1")
    assert (found["messages"], found["next"], found["examined"]) == ([], EXAMINED_MOST + 1, EXAMINED_MOST)
    assert browsed(client.driver, filter="n = 1", from_=found["next"])["next"] is None


def test_request_beyond_the_end_of_a_queue_moves_no_message_into_the_index(client: Dialogue) -> None:
    client.say(publish("q", b"x"))
    for start in (2, (1 << 62) - 1):
        assert browsed(client.driver, from_=start) == {"queue": "q", "messages": [], "next": None, "examined": 0}
    assert len(client.vhost.queue("q").ready_queue.contiguous()) == 1


def test_expired_message_is_not_shown(driver: BrokerDriver) -> None:
    driver.begin(100.0)
    client = Dialogue(driver).declare("q", x_message_ttl=60_000)
    client.say(publish("q", b"a", properties=Properties(expiration="1000")) + publish("q", b"b"))
    driver.broker.now = 102.0
    assert [row["payload"] for row in all_of(driver)] == ["b"]
    driver.broker.now = 161.0
    assert all_of(driver) == []


def steps_of(driver: BrokerDriver, **fields: object) -> Waiting:
    given = {name.rstrip("_"): value for name, value in fields.items()}
    return browsing.browse(driver, request_of(driver, **{"queue": "q", **given}))


def finished(waiting: Waiting, meanwhile: Callable[[int], None] = lambda pause: None) -> tuple[Any, int]:
    """Do all steps; return the answer and the number of pauses. `meanwhile` is called at each."""
    pauses = 0
    while True:
        try:
            assert next(waiting.steps) is None
        except StopIteration as end:
            return end.value, pauses
        meanwhile(pauses)
        pauses += 1


@pytest.mark.parametrize("fields", [{"filter": "n = 1"}, {"limit": LIMIT_MOST}, {"from": 9_000, "limit": 1}])
def test_step_of_a_request_never_costs_more_than_a_slice(client: Dialogue, fields: dict[str, object]) -> None:
    queue = client.vhost.queue("q")
    content = make_content(Properties(), b"x" * 100)
    for _ in range(10_000):
        queue.enqueue(Envelope("", "q"), content, 340, 100.0)
    work = client.driver.broker.work
    before, most = int(work.done), 0

    def count(pause: int) -> None:
        nonlocal before, most
        most, before = max(most, int(work.done) - before), int(work.done)

    _, pauses = finished(steps_of(client.driver, **fields), count)
    assert pauses > 1
    assert most <= SLICE + MOST_A_STEP


def test_queue_that_is_purged_or_deleted_between_two_steps(client: Dialogue) -> None:
    queue = client.vhost.queue("q")
    content = make_content(Properties(), b"x")

    def fill() -> None:
        for _ in range(3000):
            queue.enqueue(Envelope("", "q"), content, 240, 100.0)

    def delete(queue: Queue) -> None:
        if not queue.deleted:
            client.vhost.delete_queue(queue, 100.0)

    fill()
    found, _ = finished(steps_of(client.driver, filter="n = 1"), lambda pause: drain(client.driver, "q"))
    assert (found["messages"], found["next"]) == ([], None)
    fill()
    with pytest.raises(NotFound, match="queue 'q' was deleted meanwhile"):
        finished(steps_of(client.driver, filter="n = 1"), lambda pause: delete(queue))


@pytest.mark.parametrize("seed", range(20))
def test_messages_that_move_between_two_steps_are_shown_once(client: Dialogue, seed: int) -> None:
    chance = Random(seed)
    queue = client.vhost.queue("q")
    for number in range(600):
        client.say(publish("q", b"%d" % number))
    client.consume("q", prefetch=30)
    taken: list[int] = []
    session = client.connection.engine.sessions()
    (channel,) = list(session)

    def meanwhile(pause: int) -> None:
        if chance.random() < 0.5:
            batch = channel.get(queue, False, client.driver.broker.now)
            if batch is not None:
                taken.append(int(channel.unsettled.last_number()))
        elif taken and chance.random() < 0.5:
            channel.unsettled.settle(taken[-1], taken.pop(), Outcome.RELEASED, client.driver.broker.now)

    found, pauses = finished(steps_of(client.driver, limit=600), meanwhile)
    assert pauses > 10
    shown = [row["position"] for row in found["messages"]]
    assert shown == sorted(set(shown))
    assert shown[:30] == [*range(1, 31)]


def test_messages_of_cursors_and_those_left_to_consumers_are_shown_in_order() -> None:
    desk = Desk(10)
    cursor = desk.attach()
    cursor.plan("q", 0, 4, 1 << 62, 1 << 62)
    assert isinstance(desk.queue.ready_queue, SharedReadyQueue)
    rows = house_rows(desk, desk.queue)
    assert places(rows) == [(number, "ready") for number in range(1, 11)]


def test_messages_left_to_consumers_beside_a_cursor_keep_their_order_after_a_look() -> None:
    desk = Desk(6)
    session = Session()
    for _ in range(3):
        session.get(desk.queue, False, 0.0)
    cursor = desk.attach()
    cursor.plan("q", 0, 2, 1 << 62, 1 << 62)
    for tag in (2, 1):
        session.unsettled.settle(tag, tag, Outcome.RELEASED, 0.0)
    assert places(house_rows(desk, desk.queue)) == [(number, "ready") for number in (1, 2, 4, 5, 6)]
    session.unsettled.settle(3, 3, Outcome.RELEASED, 0.0)
    assert places(house_rows(desk, desk.queue)) == [(number, "ready") for number in range(1, 7)]
    taken: list[int] = []
    while (batch := session.get(desk.queue, False, 0.0)) is not None:
        taken += [int(message.sequence) for message in batch.messages if message is not None]
    assert taken == [1, 2, 3, 6], "the cursor has planned the others"
    assert desk.queue.ready_queue.oldest_arrival() == 0.0


def test_urgent_messages_of_a_quorum_queue_come_first_after_a_look(driver: BrokerDriver) -> None:
    client = Dialogue(driver)
    client.vhost.declare_queue("q", {"x-queue-type": "quorum"}, True, False, None, None)
    for priority in (0, 0, 9):
        client.say(publish("q", b"%d" % priority, properties=Properties(priority=priority)))
        assert [row["position"] for row in all_of(driver)] == [*range(1, int(client.vhost.queue("q").tail) + 1)]
    client.say(publish("q", b"9", properties=Properties(priority=9)))
    frames = client.consume("q")
    assert b"".join(payload for kind, _, payload in frames if kind == 3) == b"9900"


# On the disk


def house_rows(
    house: Any, queue: Queue, meanwhile: Callable[[], None] = lambda: None, text: str = "", **how: int
) -> Rows:
    """Return the rows of all pages; at each wait the disk answers, after `meanwhile`."""
    rows: Rows = []
    at: int | None = 1
    while at is not None:
        filter = MessageFilter(house.broker.formats, parse_selector(text))
        steps = Browse(house.broker, {}, queue, filter, at, **how).steps(True, "")
        try:
            while True:
                wait = next(steps)
                while wait is not None and not wait.is_over:
                    meanwhile()
                    house.ask()
                    while house.reads:
                        house.load()
        except StopIteration as end:
            rows += end.value["messages"]
            at = end.value["next"]
    return rows


def bodies(rows: Rows) -> list[bytes]:
    return [row["payload"].encode() for row in rows]


@pytest.mark.parametrize("limit", [1, 3, 100])
@pytest.mark.parametrize("written", [True, False], ids=["written", "being written"])
def test_paged_messages_are_read_as_copies_and_stay_on_the_disk(limit: int, written: bool) -> None:
    house = house_with(messages=30)
    if written:
        house.settle()
    pages = house.pages("q")
    before = (int(pages.messages), int(pages.bytes), len(house.shelf.rows))
    rows = house_rows(house, house.queues["q"], limit=limit)
    assert bodies(rows) == numbered(1, 30)
    assert [row["state"] for row in rows] == ["ready"] * 4 + ["paged"] * 26
    assert (int(pages.messages), int(pages.bytes), len(house.shelf.rows)) == before
    assert house.drain("q") == numbered(1, 30)


def test_request_begins_in_the_middle_of_a_page() -> None:
    house = house_with(messages=30)
    house.settle()
    filter = MessageFilter(house.broker.formats)
    for start in range(1, 32):
        rows: Rows = []
        steps = Browse(house.broker, {}, house.queues["q"], filter, start, 2).steps(True, "")
        try:
            while True:
                next(steps)
                house.ask()
                while house.reads:
                    house.load()
        except StopIteration as end:
            rows = end.value["messages"]
        assert bodies(rows) == numbered(start, min(start + 1, 30))


def test_page_that_is_loaded_while_a_request_waits_is_read_once() -> None:
    house = house_with(messages=30)
    house.settle()

    def take_some() -> None:
        for _ in range(3):
            house.get("q")

    rows = house_rows(house, house.queues["q"], take_some, limit=5)
    shown = [row["position"] for row in rows]
    assert shown == [*range(1, 31)]


def test_damaged_page_is_left_out() -> None:
    house = house_with(messages=30)
    house.settle()
    pages = sorted((row for row in house.shelf.rows.values() if row.queue), key=lambda row: row.first)
    damaged, after = pages[3], pages[4]
    house.shelf.rows[damaged.number] = damaged._replace(data=damaged.data[:-1])
    shown = [row["position"] for row in house_rows(house, house.queues["q"])]
    assert shown == [*range(1, damaged.first), *range(after.first, 31)]
    assert house.failed


ACTS = st.lists(st.sampled_from(["publish", "get", "write", "load", "settle", "purge"]), max_size=12)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(ACTS, min_size=1, max_size=6), st.integers(1, 7))
def test_messages_of_any_course_of_the_disk_are_shown_once(courses: list[list[str]], limit: int) -> None:
    house = house_with(messages=20)
    count = 20
    left = iter(courses)

    def act(name: str) -> None:
        nonlocal count
        if name == "publish":
            count += 1
            page(house, count, count)
        elif name == "get":
            house.get("q")
        elif name == "write":
            house.write()
        elif name == "settle":
            house.settle()
        elif name == "load":
            house.ask()
            if house.reads:
                house.load()
        else:
            house.queues["q"].purge(house.now)

    def meanwhile() -> None:
        for name in next(left, []):
            act(name)
        house.write()

    rows = house_rows(house, house.queues["q"], meanwhile, limit=limit)
    shown = [row["position"] for row in rows]
    assert shown == sorted(set(shown))
    last = {int(body) for body in bodies(rows)}
    rest = {int(body) for body in house.drain("q")}
    assert {number for number in rest if number <= 20} <= last, "a message that was there from first to last"
