"""The contract with blocking calls: a publisher waits, reports the reason, fails in time, and goes on."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
import penstock.sync
from penstock.client.blocking import KEEP_ALIVE
from penstock.client.errors import Timeout
from penstock.wire.amqp091 import spec
from tests.client.conversations import CONTRACT_OPTIONS, FIRST_WORDS, both_protocols, check_contract, fresh, url_of
from tests.support.brokers import PATIENCE, serving
from tests.support.scripted_server import Peer, played


@both_protocols
def test_contract_runs_with_blocking_calls(broker_url: str, protocol: str, caplog: pytest.LogCaptureFixture) -> None:
    queue = fresh("orders")
    sent = came = 0
    with penstock.sync.connect(url_of(broker_url, protocol, **CONTRACT_OPTIONS)) as connection:
        connection.declare_queue(queue, capacity_messages=2, hold_deadline=60)
        publisher = connection.publisher(queue, window=1)
        with pytest.raises(penstock.FlowControlTimeout) as failure:  # noqa: PT012 - this is the contract's text.
            for _ in range(10):
                publisher.send(b"order")
                sent += 1
        with connection.receiver(queue) as receiver:
            while (message := receiver.receive(timeout=PATIENCE if came < sent else 0.5)) is not None:
                assert message.body == b"order"
                came += 1
                message.accept()
        check_contract(failure.value, queue, sent, came)
        assert publisher.send(b"again").state == "confirmed"
        assert connection.delete_queue(queue) == 1
    assert any(record.getMessage().startswith(FIRST_WORDS) for record in caplog.records)


@pytest.fixture(params=["amqp091", "amqp10"])
def asking(broker_url: str, request: pytest.FixtureRequest) -> Iterator[penstock.sync.Connection]:
    with penstock.sync.connect(url_of(broker_url, request.param)) as connection:
        yield connection


def header_of(block: memoryview) -> dict[str, object]:
    assert bytes(block[:4]) == b"PSB1"
    found: dict[str, object] = json.loads(bytes(block[8 : 8 + int.from_bytes(block[4:8], "little")]))
    return found


def test_blocks_are_fetched_several_at_a_time(asking: penstock.sync.Connection) -> None:
    queue, cursor = asking.declare_queue(fresh()), fresh("cursor")
    asking.publisher(queue).send_many([bytes(10_000)] * 100)
    token = asking.attach_cursor(cursor, [queue]).token
    asked = {"cursor": cursor, "token": token, "queue": queue, "rows": 50, "bytes": 1 << 24}
    calls = [asking.begin("cursor.range", {**asked, "lo": lo, "hi": 100}) for lo in (0, 50, 20)]
    headers = [header_of(asking.answer(call)) for call in reversed(calls)]
    assert [(each["first"], each["last"]) for each in headers] == [(21, 70), (51, 100), (1, 50)]
    with pytest.raises(penstock.ControlError) as refused:
        asking.answer(asking.begin("cursor.range", {**asked, "token": token + 1, "lo": 0, "hi": 1}))
    assert refused.value.name == "fenced"
    asking.delete_cursor(cursor)
    asking.delete_queue(queue)


def test_answer_after_a_time_out_is_awaited_again_or_forgotten(asking: penstock.sync.Connection) -> None:
    queue, cursor = asking.declare_queue(fresh()), fresh("cursor")
    start = asking.attach_cursor(cursor, [queue])
    plan = {"cursor": cursor, "token": start.token, "start": start.settled, "wait_ms": 60_000}
    waiting, forgotten = asking.begin("cursor.plan", plan), asking.begin("status", {})
    asking.forget(forgotten)
    for _ in range(2):
        with pytest.raises(Timeout, match=r"no answer to the control operation cursor\.plan within 0\.05 s"):
            asking.answer(waiting, 0.05)
    asking.publisher(queue).send(b"first")
    assert asking.answer(waiting)["rows"] == 1
    assert asking.core().requests == {}
    asking.delete_cursor(cursor)
    asking.delete_queue(queue)


def test_requests_without_an_answer_are_bounded(asking: penstock.sync.Connection) -> None:
    calls = [asking.core().request("status", {}) for _ in range(64)]
    with pytest.raises(penstock.ClientError, match="64 control requests"):
        asking.begin("status", {})
    assert {asking.answer(call)["vhost"] for call in calls} == {"/"}


def test_deleted_reply_queue_is_reported_at_once() -> None:
    def script(peer: Peer) -> None:
        peer.open_channel()
        peer.expect(spec.QUEUE_DECLARE)
        peer.say(spec.QUEUE_DECLARE_OK, queue="replies")
        peer.expect(spec.BASIC_CONSUME)
        peer.say(spec.BASIC_CONSUME_OK, consumer_tag="c")
        peer.expect(spec.BASIC_PUBLISH)
        peer.frame()
        peer.frame()
        peer.say(spec.BASIC_CANCEL, consumer_tag="c")
        peer.hear_goodbye()

    with played(script) as where:
        connection = penstock.sync.connect(f"amqp://{where.host}:{where.port}", protocol="amqp091")
        connection.core().server["product"] = "Penstock"  # Others are asked nothing.
        with pytest.raises(penstock.ChannelClosed, match="the queue of the answers was deleted"):
            connection.status()
        connection.close()


@pytest.mark.slow
@both_protocols
def test_connection_whose_broker_has_gone_is_closed_without_an_error(tmp_path: Path, protocol: str) -> None:
    with serving(tmp_path) as broker:
        connection = penstock.sync.connect(url_of(broker.url, protocol))
        connection.declare_queue("q")
    connection.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="the system has other options")
def test_idle_connection_is_probed_by_the_system(broker_url: str) -> None:
    with penstock.sync.connect(broker_url) as connection, socket.socket(fileno=os.dup(connection.fileno())) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        found = [sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name, _ in KEEP_ALIVE]
    assert found == [value for _, value in KEEP_ALIVE]
    assert found[0] + found[1] * found[2] <= 60, "a firewall that forgets after a minute keeps the connection"


def test_interruption_that_comes_with_the_last_outcome_is_raised(broker_url: str, protocol: str) -> None:
    with penstock.sync.connect(url_of(broker_url, protocol)) as connection:
        publisher = connection.publisher(connection.declare_queue(fresh()))

        def interrupt(receipt: penstock.Receipt) -> None:
            raise KeyboardInterrupt

        publisher.publish(b"x").add_callback(interrupt)
        with pytest.raises(KeyboardInterrupt):
            publisher.drain(10)
        assert publisher.send(b"y").state == "confirmed"
