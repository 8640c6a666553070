"""Further producers of a link: their gates count at their connection until they open or the producers end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.core.publish.producer import Producer
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode_composite
from tests.support.amqp10_dialogue import data_section
from tests.support.amqp10_transactions import COORDINATOR, TransactionalPeer, peer

FULL_AT = 2


def with_lane() -> TransactionalPeer:
    """A link to the anonymous terminus whose lane holds messages to queue q, and whose own producer waits elsewhere."""
    client = TransactionalPeer()
    client.declare("q", capacity_messages=FULL_AT).declare("other", capacity_messages=1)
    client.attach_sender(None, COORDINATOR + 1)
    for queue in ["other"] * 2 + ["q"] * (FULL_AT + 1):
        to = encode_composite(composite(spec.PROPERTIES, to=f"/queues/{queue}"))
        client.say(client.transfer(to + data_section(b"x"), COORDINATOR + 1))
    client.attach_receiver("/queues/other", 10, credit=100, snd_settle_mode=1)
    return client


def with_commit() -> TransactionalPeer:
    """A coordinator link whose commit of a message to queue q is held."""
    client = peer(capacity_messages=FULL_AT)
    client.put(*[b"x"] * FULL_AT)
    txn_id = client.begin_transaction()
    client.say(client.post(txn_id))
    client.discharge(txn_id)
    return client


KINDS = pytest.mark.parametrize(("begin", "handle"), [(with_lane, COORDINATOR + 1), (with_commit, COORDINATOR)])
ALSO_BLOCKED = {with_lane: 0, with_commit: 1}
"""Gates that block other links: the link on which the message of the transaction came has no credit."""


@KINDS
def test_gate_that_holds_a_further_producer_counts_at_the_connection_until_open(
    begin: Callable[[], TransactionalPeer], handle: int
) -> None:
    client = begin()
    assert client.connection.blocks == ALSO_BLOCKED[begin] + 1
    client.attach_receiver("/queues/q", 11, credit=100, snd_settle_mode=1)
    client.listen()
    assert client.connection.blocks == 0
    assert client.depth("q") == 0


@KINDS
def test_link_end_releases_the_counts_of_further_producers(begin: Callable[[], TransactionalPeer], handle: int) -> None:
    client = begin()
    client.detach(handle)
    client.listen()
    assert client.connection.blocks == ALSO_BLOCKED[begin]
    assert client.connection.pausing.budget.messages == 0
    assert client.depth("q") == FULL_AT


@KINDS
def test_further_producer_is_named_by_link_and_number(begin: Callable[[], TransactionalPeer], handle: int) -> None:
    client = begin()
    session = client.session()
    name = session.links.by_handle[handle].link_name
    blocked = {each.name for each in client.vhost.queues["q"].gate.blocked.values() if isinstance(each, Producer)}
    assert f"{session.name}/{name}/1" in blocked
