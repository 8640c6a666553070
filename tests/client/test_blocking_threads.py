"""A blocking connection that two threads use by mistake: the second call is refused without side effects."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import penstock
import penstock.sync
from tests.client.conversations import both_protocols, fresh, url_of
from tests.support.brokers import PATIENCE

CALLS: dict[str, Callable[[Any, Any, Any, Any, Any], object]] = {
    "send": lambda connection, publisher, receiver, delivery, receipt: publisher.send(b"x"),
    "publish": lambda connection, publisher, receiver, delivery, receipt: publisher.publish(b"x"),
    "try_publish": lambda connection, publisher, receiver, delivery, receipt: publisher.try_publish(b"x"),
    "send_many": lambda connection, publisher, receiver, delivery, receipt: publisher.send_many([b"x"]),
    "drain": lambda connection, publisher, receiver, delivery, receipt: publisher.drain(),
    "wait": lambda connection, publisher, receiver, delivery, receipt: receipt.wait(1),
    "receive": lambda connection, publisher, receiver, delivery, receipt: receiver.receive(1),
    "receive_nowait": lambda connection, publisher, receiver, delivery, receipt: receiver.receive_nowait(),
    "next": lambda connection, publisher, receiver, delivery, receipt: next(receiver),
    "count": lambda connection, publisher, receiver, delivery, receipt: receiver.count(),
    "accept": lambda connection, publisher, receiver, delivery, receipt: delivery.accept(),
    "reject": lambda connection, publisher, receiver, delivery, receipt: delivery.reject(),
    "release": lambda connection, publisher, receiver, delivery, receipt: delivery.release(),
    "publisher": lambda connection, publisher, receiver, delivery, receipt: connection.publisher("q"),
    "receiver": lambda connection, publisher, receiver, delivery, receipt: connection.receiver("q"),
    "declare": lambda connection, publisher, receiver, delivery, receipt: connection.declare_queue("q"),
    "call": lambda connection, publisher, receiver, delivery, receipt: connection.call("q", b"x"),
    "begin": lambda connection, publisher, receiver, delivery, receipt: connection.begin("why", {}),
    "transaction": lambda connection, publisher, receiver, delivery, receipt: connection.transaction().__enter__(),
    "poll": lambda connection, publisher, receiver, delivery, receipt: connection.poll(0),
    "close": lambda connection, publisher, receiver, delivery, receipt: connection.close(),
}
"""Calls of a connection, its publisher, its receiver, a delivery and a receipt, by name."""


@both_protocols
def test_call_of_another_thread_is_refused_and_the_connection_goes_on(broker_url: str, protocol: str) -> None:
    with penstock.sync.connect(url_of(broker_url, protocol, reconnect="false")) as connection:
        queue = connection.declare_queue(fresh("threads"))
        publisher = connection.publisher(queue)
        publisher.send(b"one")
        receiver = connection.receiver(queue)
        delivery = receiver.receive(5)
        receipt = publisher.publish(b"two")
        told: dict[str, object] = {}

        def work() -> None:
            for name, call in CALLS.items():
                try:
                    told[name] = call(connection, publisher, receiver, delivery, receipt)
                except RuntimeError as error:
                    told[name] = str(error)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        text = "a connection belongs to the thread that uses it; each thread needs one of its own"
        assert set(told) == set(CALLS)
        assert all(str(each).startswith(text) for each in told.values())
        assert publisher.send(b"three").state == "confirmed"
        delivery.accept()
        assert [next(receiver).body for _ in range(2)] == [b"two", b"three"]


@both_protocols
def test_connection_that_another_thread_takes_over_belongs_to_that_thread(broker_url: str, protocol: str) -> None:
    states: list[str] = []
    with penstock.sync.connect(url_of(broker_url, protocol)) as connection:
        publisher = connection.publisher(connection.declare_queue(fresh()))

        sent, looked = threading.Event(), threading.Event()

        def work() -> None:
            connection.take_over()
            states.append(publisher.send(b"x").state)
            sent.set()
            looked.wait(PATIENCE)

        thread = threading.Thread(target=work)
        thread.start()
        assert sent.wait(PATIENCE)
        with pytest.raises(RuntimeError, match="belongs to the thread"):
            publisher.send(b"y")
        connection.take_over()
        states.append(publisher.send(b"z").state)
        looked.set()
        thread.join()
    assert states == ["confirmed"] * 2


@both_protocols
def test_connection_belongs_to_the_thread_of_the_first_call_until_the_thread_ends(
    broker_url: str, protocol: str
) -> None:
    connection = penstock.sync.connect(url_of(broker_url, protocol))
    states: list[str] = []

    def work() -> None:
        states.append(connection.publisher(connection.declare_queue(fresh())).send(b"x").state)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    states.append(connection.publisher(connection.declare_queue(fresh())).send(b"y").state)
    connection.close()
    assert states == ["confirmed"] * 2


@both_protocols
def test_threads_with_separate_connections_are_left_alone(broker_url: str, protocol: str) -> None:
    states: list[str] = []

    def work() -> None:
        with penstock.sync.connect(url_of(broker_url, protocol)) as connection:
            states.append(connection.publisher(connection.declare_queue(fresh())).send(b"x").state)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert states == ["confirmed"] * 3


@pytest.mark.parametrize("call", ["counters", "protocol", "server_properties", "blocked"])
def test_reading_a_figure_from_another_thread_is_allowed(broker_url: str, call: str) -> None:
    found: list[object] = []
    with penstock.sync.connect(broker_url) as connection:
        thread = threading.Thread(target=lambda: found.append(getattr(connection, call)))
        thread.start()
        thread.join()
    assert len(found) == 1
