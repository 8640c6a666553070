"""Clients of the crash test over AMQP 1.0: they report the same history as those of AMQP 0-9-1."""

from __future__ import annotations

import random
from pathlib import Path

from bench.crash.history import History
from bench.crash.parties import Consumer, Publisher, Transacting
from bench.crash.promises import Promises
from bench.crash.rounds import parties
from bench.crash.topology import LOCAL_EXCHANGE, SUBSCRIPTION
from bench.crash.wire import Address, Link
from bench.crash.wire10 import Link10, SubscribedLink10, subscribe
from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from tests.support.brokers import serving

LARGE = bytes(range(256)) * 1000


def declare(link: Link, *queues: str) -> None:
    for queue in queues:
        link.ask(spec.QUEUE_DECLARE, queue=queue, durable=True)


def ready(link: Link, queue: str) -> object:
    return link.ask(spec.QUEUE_DECLARE, queue=queue, passive=True).args["message_count"]


def test_publishes_are_confirmed_and_deliveries_settled(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        witness, link = Link(Address(broker.port)), Link10(Address(broker.port))
        declare(witness, "q")
        told: list[tuple[int, bool]] = []
        link.on_confirm = lambda number, multiple, positive: told.append((number, positive))
        for number, body in enumerate((b"first", LARGE, b"third"), 1):
            assert link.publish("", "q", Properties(message_id=str(number), delivery_mode=2), body) == number
        link.publish_settled("", "q", Properties(message_id="4", delivery_mode=2), b"fourth")
        link.flush()
        while len(told) < 3:
            link.read()
        assert told == [(1, True), (2, True), (3, True)]
        link.ask(spec.BASIC_QOS, prefetch_count=10)
        link.ask(spec.BASIC_CONSUME, queue="q")
        while len(link.deliveries) < 4:
            link.read()
        found = list(link.deliveries)
        assert [each.properties.message_id for each in found] == ["1", "2", "3", "4"]
        assert [each.body for each in found] == [b"first", LARGE, b"third", b"fourth"]
        assert not any(each.redelivered for each in found)
        link.deliveries.clear()
        link.say(spec.BASIC_ACK, delivery_tag=found[1].tag, multiple=True)
        link.say(spec.BASIC_NACK, delivery_tag=found[2].tag, requeue=True)
        link.say(spec.BASIC_REJECT, delivery_tag=found[3].tag, requeue=False)
        link.flush()
        while not link.deliveries:
            link.read()
        (again,) = link.deliveries
        assert (again.body, again.redelivered) == (b"third", True)
        link.abort()
        witness.abort()


def test_transactions_are_declared_rolled_back_and_discharged(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        witness, link = Link(Address(broker.port)), Link10(Address(broker.port))
        declare(witness, "in", "out")
        witness.publish("", "in", Properties(delivery_mode=2), b"work")
        witness.flush()
        link.ask(spec.TX_SELECT)
        link.ask(spec.BASIC_QOS, prefetch_count=10)
        link.ask(spec.BASIC_CONSUME, queue="in")
        while not link.deliveries:
            link.read()
        tag = link.deliveries.popleft().tag
        for end, published in ((spec.TX_ROLLBACK, 0), (spec.TX_COMMIT, 1)):
            link.publish("", "out", Properties(delivery_mode=2), b"done")
            link.say(spec.BASIC_ACK, delivery_tag=tag)
            link.ask(end)
            assert ready(witness, "out") == published
        link.abort()
        witness.abort()


def test_share_of_the_clients_of_a_load_speaks_amqp_1_0(tmp_path: Path) -> None:
    for share, expected in ((0.0, {Link}), (1.0, {Link10})):
        found = [
            client
            for seed in range(20)
            for client in parties("1", Address(1), History(Promises()), random.Random(seed), {}, share)
            if isinstance(client, (Consumer, Transacting))
        ]
        assert {client.link_type for client in found} == expected
    assert any(
        client.settled
        for seed in range(20)
        for client in parties("1", Address(1), History(Promises()), random.Random(seed), {}, 1.0)
        if isinstance(client, Publisher)
    )


def test_aborted_message_is_never_seen_and_its_credit_comes_back(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        witness, link = Link(Address(broker.port)), Link10(Address(broker.port))
        declare(witness, "q")
        told: list[int] = []
        link.on_confirm = lambda number, multiple, positive: told.append(number)
        for number in range(1, 301):  # Many more than the link's first credit.
            link.publish_aborted("", "q", Properties(message_id="aborted", delivery_mode=2), LARGE)
            link.publish("", "q", Properties(message_id=str(number), delivery_mode=2), b"whole")
        link.flush()
        while len(told) < 300:
            link.read()
        assert ready(witness, "q") == 300
        link.abort()
        witness.abort()


def test_subscriber_with_no_local_gets_messages_of_others_only(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        witness = Link(Address(broker.port))
        witness.ask(spec.EXCHANGE_DECLARE, exchange=LOCAL_EXCHANGE, type="fanout", durable=True)
        subscribe(Address(broker.port))
        link = SubscribedLink10(Address(broker.port))
        told: list[int] = []
        link.on_confirm = lambda number, multiple, positive: told.append(number)
        link.ask(spec.BASIC_CONSUME, queue=SUBSCRIPTION)
        link.wait_attached()
        link.publish(LOCAL_EXCHANGE, "", Properties(message_id="own"), b"own")
        witness.publish(LOCAL_EXCHANGE, "", Properties(message_id="other"), b"other")
        witness.flush()
        link.flush()
        while not (told and link.deliveries):
            link.read()
        assert [each.properties.message_id for each in link.deliveries] == ["other"]
        assert ready(witness, SUBSCRIPTION) == 0
        link.abort()
        witness.abort()
