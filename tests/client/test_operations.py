"""Declarations, queries and commands of a connection, over both protocols, blocking and with asyncio."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import pytest

import penstock
import penstock.sync
from penstock.client.engine.connection import REQUESTS_MAX
from tests.client.conversations import both_protocols, fresh, url_of


@pytest.fixture(params=["amqp091", "amqp10"])
def connection(broker_url: str, request: pytest.FixtureRequest) -> Iterator[penstock.sync.Connection]:
    with penstock.sync.connect(url_of(broker_url, request.param)) as connection:
        yield connection


@pytest.fixture
def queue(connection: penstock.sync.Connection) -> Iterator[str]:
    queue = connection.declare_queue(fresh(), capacity_messages=10)
    yield queue
    connection.delete_queue(queue)


def bindings_of(connection: penstock.sync.Connection, source: str) -> list[tuple[str, str, dict[str, object]]]:
    found = [each for each in connection.list("bindings") if each["source"] == source]
    return sorted((each["destination"], each["routing_key"], each["arguments"]) for each in found)


def test_exchange_is_bound_to_an_exchange_and_unbound(connection: penstock.sync.Connection, queue: str) -> None:
    source, middle = fresh("source"), fresh("middle")
    connection.declare_exchange(source, "topic")
    connection.declare_exchange(middle, "fanout", internal=True)
    connection.bind_exchange(middle, source, "eu.#")
    connection.bind(queue, middle)
    connection.publisher(exchange=source, routing_key="eu.de").send(b"over two exchanges")
    assert connection.why(queue).depth.messages == 1
    connection.unbind_exchange(middle, source, "eu.#")
    with pytest.raises(penstock.MessageRefused):
        connection.publisher(exchange=source, routing_key="eu.de").send(b"to nobody")
    connection.delete_exchange(middle)
    connection.delete_exchange(source)


def test_queue_without_a_name_gets_a_name(connection: penstock.sync.Connection) -> None:
    names = {connection.declare_queue(exclusive=True) for _ in range(2)}
    assert len(names) == 2
    for name in names:
        assert connection.why(name).depth.messages == 0


def test_binding_is_removed_by_arguments(connection: penstock.sync.Connection, queue: str) -> None:
    source = fresh("headers")
    connection.declare_exchange(source, "headers")
    arguments: list[dict[str, object]] = [{"x-match": "any", "format": "pdf"}, {"x-match": "all", "pages": 5}]
    for each in arguments:
        connection.bind(queue, source, **each)
    connection.unbind(queue, source, **arguments[0])
    assert bindings_of(connection, source) == [(queue, "", arguments[1])]
    connection.unbind(queue, source, **arguments[0])
    connection.unbind(queue, source, **arguments[1])
    assert bindings_of(connection, source) == []
    connection.delete_exchange(source)


def test_why_reports_the_closed_gate_and_the_time_of_the_closing(
    connection: penstock.sync.Connection, queue: str
) -> None:
    connection.block("queue", queue, "maintenance")
    answer = connection.why(queue)
    own, closed = answer.gates[0], next(gate for gate in answer.gates if not gate.open)
    assert (answer.kind, own.kind, own.name, own.scope, own.open) == ("queue", "queue", queue, "/", True)
    assert (own.since, own.capacity.messages, own.depth) == (None, 10, answer.depth)
    assert closed.kind == "operator"
    assert closed.since is not None
    assert closed.since >= 0
    assert any("maintenance" in sentence for sentence in answer.sentences)
    assert answer.raw["sentences"] == list(answer.sentences) == str(answer).split("\n")
    assert connection.why().kind == ""
    connection.unblock("queue", queue)
    with pytest.raises(penstock.ControlError, match="user 'nobody'") as refused:
        connection.why(user="nobody")
    assert refused.value.code == 404


def test_operator_blocks_and_unblocks(connection: penstock.sync.Connection, queue: str) -> None:
    connection.block("queue", queue, "maintenance")
    with pytest.raises((penstock.FlowControlTimeout, penstock.ConfirmTimeout)):
        connection.publisher(queue, window=1).send(b"held", timeout=0.3)
    assert connection.why(queue).depth.messages == 0
    connection.unblock("queue", queue)
    with pytest.raises(penstock.ControlError) as refused:
        connection.unblock("queue", queue)
    assert refused.value.code == 404


def test_settings_are_set_shown_and_unset(connection: penstock.sync.Connection, queue: str) -> None:
    connection.set("queue", queue, {"hold_deadline": 7})
    assert {"hold-deadline": "7"} in [each.get("command") for each in connection.settings()]
    assert {each["setting"]: each["value"] for each in connection.show("queue", queue)}["hold-deadline"] == 7
    connection.unset("queue", queue, ["hold-deadline"])
    with pytest.raises(penstock.ControlError):
        connection.unset("queue", queue)
    with pytest.raises(penstock.ControlError, match="did you mean") as refused:
        connection.set("queue", queue, {"hold_deadlin": 7})
    assert refused.value.code == 406


def test_policies_are_set_listed_and_cleared(connection: penstock.sync.Connection, queue: str) -> None:
    answer = connection.set_policy("short", f"^{queue}$", {"max-length": 3}, priority=2, apply_to="queues")
    assert (answer["queues"], answer["created"]) == (1, True)
    connection.set_policy("limit", f"^{queue}$", {"max-length": 2}, operator=True)
    assert [each["name"] for each in connection.policies()] == ["short"]
    assert [each["name"] for each in connection.policies(operator=True, everywhere=True)] == ["limit"]
    connection.clear_policy("limit", operator=True)
    connection.clear_policy("short")
    assert connection.policies() == []


def test_definitions_come_back_after_the_queue_was_deleted(connection: penstock.sync.Connection) -> None:
    queue = connection.declare_queue(fresh("defined"), capacity_messages=3)
    exported = connection.export_definitions(everywhere=False)
    text = json.dumps(exported)
    exported["queues"] = [{**exported["queues"][0], "name": f"{queue}-{number}"} for number in range(2_000)]
    tried = connection.import_definitions(json.dumps(exported), everywhere=False, dry_run=True)  # Several frames.
    assert {each["change"] for each in tried["differences"]} == {"created"}
    assert len(tried["differences"]) == 2_000
    connection.delete_queue(queue)
    assert connection.import_definitions(text, everywhere=False)["made"]["queues"] == 1
    assert connection.why(queue).raw["capacity"]["messages"] == 3
    connection.delete_queue(queue)


def test_vhost_is_declared_listed_and_deleted(connection: penstock.sync.Connection) -> None:
    name = fresh("vhost")
    assert connection.declare_vhost(name)
    assert not connection.declare_vhost(name)
    assert name in {each["name"] for each in connection.list("vhosts")}
    connection.delete_vhost(name)


def test_cursor_is_read_to_the_end(connection: penstock.sync.Connection, queue: str) -> None:
    assert connection.create_cursor("reader", [queue]) == {queue: 0}
    connection.publisher(queue).send_many([b"one", b"two", b"three"])
    held = connection.attach_cursor("reader", [queue])
    plan = connection.plan_batch("reader", held.token, held.settled, rows=2, wait=0.1)
    assert (plan.rows, plan.end, plan.tail) == (2, {queue: 2}, {queue: 3})
    block = connection.read_range("reader", held.token, queue, 0, 2, rows=10, bytes=1_000_000, columns=["value"])
    assert b"onetwo" in bytes(block)
    assert connection.settle_cursor("reader", held.token, plan.end) == {queue: 2}
    assert connection.show_cursor("reader")["queues"][0]["settled"] == 2
    moved = connection.move_cursor("reader", "latest", force=True)
    assert moved["queues"][0]["to"] == 3
    with pytest.raises(penstock.ControlError) as fenced:
        connection.settle_cursor("reader", held.token, plan.tail)
    assert fenced.value.name == "fenced"
    with pytest.raises(penstock.ControlError):
        connection.release_cursor("reader", [queue])
    connection.delete_cursor("reader")


def test_list_continues_over_all_pages(connection: penstock.sync.Connection) -> None:
    names = [connection.declare_queue(fresh("page")) for _ in range(130)]
    assert set(names) <= {each["name"] for each in connection.list("queues")}
    for name in names:
        connection.delete_queue(name)


def test_operation_is_requested_by_name(connection: penstock.sync.Connection, queue: str) -> None:
    assert connection.request("status")["vhost"] == connection.status()["vhost"] == "/"
    with pytest.raises(penstock.ControlError, match="did you mean"):
        connection.request("why", quue=queue)


def test_late_answer_is_dropped_and_leaves_no_request_open(connection: penstock.sync.Connection, queue: str) -> None:
    engine = connection.core()
    for _ in range(REQUESTS_MAX + 1):
        steps = engine.requesting("status", {})
        next(steps)
        steps.close()  # As a cancelled call does.
    assert engine.requests == {}
    assert connection.status()["vhost"] == "/"


def test_setting_for_all_queues_locks_no_operator_out(connection: penstock.sync.Connection) -> None:
    with penstock.sync.connect(url_of(f"amqp://{connection.options.hosts[0]}", connection.protocol)) as other:
        connection.set("queue", "#", {"capacity-messages": 1, "message-ttl": 1})
        try:
            assert other.status()["version"] == penstock.__version__
            assert len(other.settings()) > 0
        finally:
            connection.unset("queue", "#")


@both_protocols
async def test_watch_yields_events_of_a_queue(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        queue = await connection.declare_queue(fresh("watched"), capacity_messages=5, auto_delete=True)
        events = connection.watch(queue, period=0.05)
        first = asyncio.ensure_future(anext(events))
        publisher = connection.publisher(queue, window=100)
        while not first.done():
            publisher.try_publish(b"filler")
            await asyncio.sleep(0.01)
        found = [(await first)["event"]]
        while "gate-closed" not in found:
            publisher.try_publish(b"filler")
            event = await anext(events)
            assert event["queue"] == queue
            found.append(event["event"])
        await connection.delete_queue(queue)


@both_protocols
async def test_operations_are_coroutines_and_asynchronous_iterators_in_asyncio(broker_url: str, protocol: str) -> None:
    async with penstock.connect(url_of(broker_url, protocol)) as connection:
        queue = await connection.declare_queue(fresh())
        assert queue in {each["name"] async for each in connection.list("queues")}
        answers = await asyncio.gather(*(connection.why(queue) for _ in range(20)))
        assert {answer.gates[0].name for answer in answers} == {queue}
        assert (await connection.status())["vhost"] == "/"
        assert (await connection.show("queue", queue))[0]["setting"]
        await connection.delete_queue(queue)


def test_messages_are_browsed_page_by_page_and_stay(connection: penstock.sync.Connection) -> None:
    queue = connection.declare_queue(fresh())
    publisher = connection.publisher(routing_key=queue)
    publisher.send_many([penstock.Message(b"%d" % number, headers={"n": number}) for number in range(2_500)])
    rows = list(connection.browse(queue))
    assert [row["payload"] for row in rows] == [f"{number}" for number in range(2_500)]
    some = list(connection.browse(queue, filter="n > 100", start=50, limit=3, truncate=1))
    assert [(row["position"], row["payload"], row["truncated"]) for row in some] == [
        *((position, "1", True) for position in (102, 103, 104)),
    ]
    assert next(iter(connection.browse(queue)))["position"] == 1, "an iteration may end early"
    with pytest.raises(penstock.ControlError, match="the selector is not valid"):
        list(connection.browse(queue, filter="n >"))
    assert connection.why(queue).depth.messages == 2_500
    connection.delete_queue(queue)
    with pytest.raises(penstock.ControlError, match="no queue"):
        list(connection.browse(queue))
