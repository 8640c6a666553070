"""Which of several consumers is next."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.brokers import eventually

pytestmark = pytest.mark.clients


class Audience:
    """Consumers of one queue, and who got what."""

    def __init__(self, connection: pika.BlockingConnection, queue: str) -> None:
        self.connection = connection
        self.channel: BlockingChannel = connection.channel()
        self.queue = queue
        self.channel.queue_declare(queue, exclusive=True)
        self.seen: list[str] = []

    def joins(self, tag: str) -> None:
        def note(channel: BlockingChannel, method: Any, properties: Any, body: bytes) -> None:
            self.seen.append(method.consumer_tag)

        self.channel.basic_consume(self.queue, note, auto_ack=True, consumer_tag=tag)

    def hears(self, count: int) -> list[str]:
        """Publish one message after the other, each when the one before has come; who got them."""
        for _ in range(count):
            before = len(self.seen)
            self.channel.basic_publish("", self.queue, b"x")
            eventually(
                lambda before=before: self.connection.process_data_events(0) or len(self.seen) > before,  # type: ignore[misc]
                "the message came",
            )
        return self.seen[-count:]


def test_it_goes_round(connection: pika.BlockingConnection, name: str) -> None:
    audience = Audience(connection, name)
    for tag in "abc":
        audience.joins(tag)
    assert audience.hears(6) == list("abcabc")


def test_who_joins_later_stands_behind_those_who_were_there(connection: pika.BlockingConnection, name: str) -> None:
    audience = Audience(connection, name)
    audience.joins("a")
    audience.hears(1)
    audience.joins("b")
    assert audience.hears(3) == list("aba")


def test_who_joins_in_the_middle_of_a_round_is_the_last_in_turn(connection: pika.BlockingConnection, name: str) -> None:
    audience = Audience(connection, name)
    for tag in "ab":
        audience.joins(tag)
    audience.hears(1)
    audience.joins("c")
    assert audience.hears(6) == list("bacbac")


def test_who_leaves_takes_nobody_elses_turn(connection: pika.BlockingConnection, name: str) -> None:
    audience = Audience(connection, name)
    for tag in "abc":
        audience.joins(tag)
    audience.hears(2)
    audience.channel.basic_cancel("a")
    assert audience.hears(3) == list("cbc")
