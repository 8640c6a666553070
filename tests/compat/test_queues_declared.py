"""Queues: names, exclusive use, ends, and second declarations."""

from __future__ import annotations

from typing import Any

import pytest
from pamqp import base, commands

from tests.support.brokers import eventually, some_name
from tests.support.raw_client import Peer, open_peer, publish_frames

Declare, DeclareOk = commands.Queue.Declare, commands.Queue.DeclareOk
Delete, DeleteOk = commands.Queue.Delete, commands.Queue.DeleteOk
Bind, Unbind, Purge = commands.Queue.Bind, commands.Queue.Unbind, commands.Queue.Purge
Consume, Get = commands.Basic.Consume, commands.Basic.Get
LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{}' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the original declaration."
)
NONE_DECLARED = (404, "NOT_FOUND - no previously declared queue")


def answer(peer: Peer, method: base.Frame) -> base.Frame | tuple[int, str]:
    """The answer to a method, or why the channel was closed; it is open again afterwards."""
    peer.send(1, method)
    found = peer.read_method()[1]
    if not isinstance(found, commands.Channel.Close):
        return found
    peer.send(1, commands.Channel.CloseOk())
    peer.channel(1)
    return found.reply_code or 0, found.reply_text or ""


def comes_to(peer: Peer, queue: str, messages: int) -> bool:
    """Wait for so many messages: RabbitMQ's queues take them in their own time."""
    return eventually(lambda: peer.counts(queue)[0] == messages, f"{messages} messages")


def missing(name: str) -> tuple[int, str]:
    return 404, f"NOT_FOUND - no queue '{name}' in vhost '/'"


# Exclusive


@pytest.mark.parametrize(
    "method",
    [
        lambda name: Declare(queue=name),
        lambda name: Declare(queue=name, exclusive=True),
        lambda name: Declare(queue=name, passive=True),
        lambda name: Consume(queue=name),
        lambda name: Get(queue=name),
        lambda name: Bind(queue=name, exchange="amq.direct", routing_key="k"),
        lambda name: Purge(queue=name),
        lambda name: Delete(queue=name),
        lambda name: Delete(queue=name, if_unused=True),
    ],
)
def test_exclusive_queue_is_locked_for_other_connections(peer: Peer, other: Peer, name: str, method: Any) -> None:
    peer.declare(name)
    assert answer(other, method(name)) == (405, LOCKED.format(name))
    assert peer.counts(name) == (0, 0)


@pytest.mark.parametrize("exclusive", [False, True])
def test_queue_cannot_become_exclusive_nor_cease_to_be(peer: Peer, name: str, exclusive: bool) -> None:
    peer.ask(1, Declare(queue=name, exclusive=exclusive), DeclareOk)
    assert answer(peer, Declare(queue=name, exclusive=not exclusive)) == (405, LOCKED.format(name))
    peer.ask(1, Delete(queue=name), DeleteOk)


def test_exclusive_queue_keeps_its_bindings_on_foreign_unbind(peer: Peer, other: Peer, name: str) -> None:
    peer.declare(name)
    peer.ask(1, Bind(queue=name, exchange="amq.direct", routing_key=name), commands.Queue.BindOk)
    assert answer(other, Unbind(queue=name, exchange="amq.direct", routing_key=name)) == (405, LOCKED.format(name))
    other.ask(1, Unbind(queue=name, exchange="amq.direct", routing_key="another"), commands.Queue.UnbindOk)


def test_exclusive_queue_takes_publishes_of_other_connections(peer: Peer, other: Peer, name: str) -> None:
    peer.declare(name)
    other.say(publish_frames(1, "", name, b"x"))
    assert other.is_well()
    assert peer.ask(1, Get(queue=name, no_ack=True), commands.Basic.GetOk).routing_key == name


def test_exclusive_queue_ends_with_its_connection_and_not_with_its_channel(at: tuple[str, int], name: str) -> None:
    with open_peer(at) as owner, open_peer(at) as other:
        owner.declare(name)
        owner.ask(1, commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)
        owner.channel(1)
        assert owner.counts(name) == (0, 0)
        owner.ask(0, commands.Connection.Close(200, "", 0, 0), commands.Connection.CloseOk)
        assert answer(other, Declare(queue=name, passive=True)) == missing(name)


def test_exclusive_queue_is_not_durable(peer: Peer, name: str) -> None:
    peer.declare(name)
    peer.ask(1, Declare(queue=name, exclusive=True, durable=True), DeclareOk)


# Auto-delete


def test_auto_delete_queue_goes_with_its_last_consumer(peer: Peer, name: str) -> None:
    peer.ask(1, Declare(queue=name, auto_delete=True), DeclareOk)
    for tag in ("a", "b"):
        peer.ask(1, Consume(queue=name, consumer_tag=tag), commands.Basic.ConsumeOk)
    peer.ask(1, commands.Basic.Cancel("a"), commands.Basic.CancelOk)
    assert peer.counts(name) == (0, 1)
    peer.ask(1, commands.Basic.Cancel("b"), commands.Basic.CancelOk)
    assert answer(peer, Declare(queue=name, passive=True)) == missing(name)


def test_auto_delete_queue_goes_with_the_channel_of_its_last_consumer(peer: Peer, name: str) -> None:
    peer.ask(1, Declare(queue=name, auto_delete=True), DeclareOk)
    peer.channel(2)
    peer.ask(2, Consume(queue=name, consumer_tag="a"), commands.Basic.ConsumeOk)
    peer.ask(2, commands.Channel.Close(200, "", 0, 0), commands.Channel.CloseOk)
    assert answer(peer, Declare(queue=name, passive=True)) == missing(name)


def test_auto_delete_queue_without_a_former_consumer_stays(at: tuple[str, int], name: str) -> None:
    with open_peer(at) as owner, open_peer(at) as other:
        owner.ask(1, Declare(queue=name, auto_delete=True), DeclareOk)
        owner.ask(1, Get(queue=name), commands.Basic.GetEmpty)
        owner.ask(0, commands.Connection.Close(200, "", 0, 0), commands.Connection.CloseOk)
        assert other.counts(name) == (0, 0)
        other.ask(1, Delete(queue=name), DeleteOk)


# Names


def test_queue_names_made_by_the_broker_are_reserved(peer: Peer) -> None:
    names = {peer.declare("") for _ in range(3)}
    assert len(names) == 3
    for name in names:
        assert name.startswith("amq.gen-")
        assert len(name) == 30
        refused = answer(peer, Declare(queue=name, exclusive=True))
        assert refused == (403, f"ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'")
        assert peer.counts(name) == (0, 0)


@pytest.mark.parametrize("name", ["amq.", "amq.mine"])
def test_names_that_begin_with_amq_are_reserved(peer: Peer, name: str) -> None:
    assert answer(peer, Declare(queue=name)) == (
        403,
        f"ACCESS_REFUSED - queue name '{name}' contains reserved prefix 'amq.*'",
    )
    assert answer(peer, Declare(queue=name, passive=True)) == missing(name)


def test_queue_name_has_up_to_255_bytes(peer: Peer) -> None:
    name = some_name("long") + "n" * 242
    assert len(name) == 255
    assert peer.declare(name) == name


@pytest.mark.parametrize(
    "method",
    [
        Consume(queue=""),
        Get(queue=""),
        Purge(queue=""),
        Delete(queue=""),
        Bind(queue="", exchange="amq.direct", routing_key="k"),
        Bind(queue="", exchange="amq.direct", routing_key=""),
        Unbind(queue="", exchange="amq.direct", routing_key="k"),
    ],
    ids=lambda method: method.name,
)
def test_empty_name_means_nothing_where_no_queue_was_declared(peer: Peer, method: base.Frame) -> None:
    assert answer(peer, method) == NONE_DECLARED


def test_empty_name_is_the_queue_declared_last_on_the_channel(peer: Peer, name: str) -> None:
    peer.declare(some_name("earlier"))
    peer.declare(name)
    peer.ask(1, Bind(queue="", exchange="amq.direct", routing_key=""), commands.Queue.BindOk)
    for _ in range(3):
        peer.say(publish_frames(1, "amq.direct", name, b"x"))
    peer.ask(1, Get(queue="", no_ack=True), commands.Basic.GetOk)
    peer.read_frame()
    peer.read_frame()
    assert peer.ask(1, Purge(queue=""), commands.Queue.PurgeOk).message_count == 2
    peer.ask(1, Unbind(queue="", exchange="amq.direct", routing_key=""), commands.Queue.UnbindOk)
    peer.say(publish_frames(1, "amq.direct", name, b"x"))
    peer.ask(1, Consume(queue="", consumer_tag="c"), commands.Basic.ConsumeOk)
    assert peer.counts(name) == (0, 1)
    assert peer.ask(1, Delete(queue=""), DeleteOk).message_count == 0
    assert peer.expect(1, commands.Basic.Cancel).consumer_tag == "c"
    assert answer(peer, Get(queue="")) == missing(name)


def test_passive_declaration_counts_as_one(peer: Peer, name: str) -> None:
    peer.declare(name)
    peer.channel(2)
    peer.ask(2, Declare(queue=name, passive=True), DeclareOk)
    peer.ask(2, Purge(queue=""), commands.Queue.PurgeOk)


def test_passive_declaration_of_nothing_finds_nothing(peer: Peer) -> None:
    peer.declare()
    assert answer(peer, Declare(queue="", passive=True)) == missing("")
    assert answer(peer, Declare(queue="nobody", passive=True, nowait=True)) == missing("nobody")


# Deleting and purging


def test_deleting_an_unknown_queue_is_answered(peer: Peer) -> None:
    for how in ({}, {"if_unused": True, "if_empty": True}):
        assert peer.ask(1, Delete(queue="nobody", **how), DeleteOk).message_count == 0


def test_queue_in_use_is_not_deleted_if_unused(peer: Peer, name: str) -> None:
    peer.declare(name)
    peer.ask(1, Consume(queue=name, consumer_tag="c"), commands.Basic.ConsumeOk)
    assert answer(peer, Delete(queue=name, if_unused=True)) == (
        406,
        f"PRECONDITION_FAILED - queue '{name}' in vhost '/' in use",
    )
    peer.ask(1, Delete(queue=name, if_unused=True), DeleteOk)


def test_queue_with_messages_is_not_deleted_if_empty(peer: Peer, name: str) -> None:
    peer.declare(name)
    peer.say(publish_frames(1, "", name, b"x"))
    assert answer(peer, Delete(queue=name, if_empty=True)) == (
        406,
        f"PRECONDITION_FAILED - queue '{name}' in vhost '/' not empty",
    )
    peer.ask(1, Get(queue=name), commands.Basic.GetOk)
    peer.read_frame()
    peer.read_frame()
    assert peer.ask(1, Delete(queue=name, if_empty=True), DeleteOk).message_count == 0


def test_unacknowledged_messages_are_neither_counted_nor_purged(peer: Peer, name: str) -> None:
    peer.declare(name)
    peer.say(publish_frames(1, "", name, b"x") * 3)
    peer.ask(1, Get(queue=name), commands.Basic.GetOk)
    peer.read_frame()
    peer.read_frame()
    assert comes_to(peer, name, 2)
    assert peer.ask(1, Purge(queue=name), commands.Queue.PurgeOk).message_count == 2
    peer.say(publish_frames(1, "", name, b"x"))
    peer.send(1, commands.Basic.Nack(1))
    assert comes_to(peer, name, 2)
    assert peer.ask(1, Delete(queue=name), DeleteOk).message_count == 2


def test_purging_or_binding_an_unknown_queue_is_404(peer: Peer, name: str) -> None:
    assert answer(peer, Purge(queue=name)) == missing(name)
    assert answer(peer, Bind(queue=name, exchange="amq.direct", routing_key="k")) == missing(name)
    no_exchange = (404, "NOT_FOUND - no exchange 'nobody' in vhost '/'")
    assert answer(peer, Bind(queue=name, exchange="nobody", routing_key="k")) == no_exchange


def test_queue_methods_with_nowait_have_no_answers(peer: Peer, name: str) -> None:
    peer.send(
        1,
        Declare(queue=name, exclusive=True, nowait=True),
        Bind(queue=name, exchange="amq.direct", routing_key=name, nowait=True),
    )
    peer.say(publish_frames(1, "amq.direct", name, b"x") * 2)
    assert comes_to(peer, name, 2)
    peer.send(1, Purge(queue=name, nowait=True))
    assert comes_to(peer, name, 0)
    peer.send(1, Delete(queue=name, nowait=True), Declare(queue=name, passive=True, nowait=True))
    assert peer.refused(1) == missing(name)
