"""Line ends in the names of queues, which both brokers leave out; exchanges are in test_exchanges.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pamqp import base, commands

from tests.support.brokers import eventually
from tests.support.raw_client import Peer, method_frame, publish_frames

Declare, DeclareOk = commands.Queue.Declare, commands.Queue.DeclareOk
Delete, DeleteOk = commands.Queue.Delete, commands.Queue.DeleteOk


def say_with(peer: Peer, method: base.Frame, queue: str) -> None:
    """Send a method with a name that pamqp would refuse, where it has x's of the same length."""
    octets = method_frame(1, method)
    assert octets.count(b"x" * len(queue)) == 1
    peer.say(octets.replace(b"x" * len(queue), queue.encode()))


def test_line_ends_are_left_out_of_the_name_of_a_queue_that_is_declared_or_deleted(peer: Peer, name: str) -> None:
    written = f"\r\n{name}\n-\ry"
    placeholder = "x" * len(written)
    for passive in (False, True):
        say_with(peer, Declare(queue=placeholder, passive=passive), written)
        assert peer.expect(1, DeclareOk).queue == f"{name}-y"
    peer.say(publish_frames(1, "", f"{name}-y", b"1"))
    eventually(lambda: peer.counts(f"{name}-y")[0] == 1, "it is there")
    say_with(peer, Delete(queue=placeholder), written)
    assert peer.expect(1, DeleteOk).message_count == 1
    peer.send(1, Declare(queue=f"{name}-y", passive=True))
    assert peer.refused(1) == (404, f"NOT_FOUND - no queue '{name}-y' in vhost '/'")


def test_name_of_nothing_but_line_ends_is_none(peer: Peer) -> None:
    say_with(peer, Declare(queue="xx", exclusive=True), "\r\n")
    queue = peer.expect(1, DeclareOk).queue
    assert queue.startswith("amq.gen-")


def test_reserved_name_is_reserved_with_line_ends_too(peer: Peer) -> None:
    say_with(peer, Declare(queue="x" * 9), "\namq.mine")
    assert peer.refused(1) == (403, "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'")


def test_routing_key_keeps_its_line_ends(peer: Peer, name: str) -> None:
    peer.ask(1, Declare(queue=name, exclusive=True), DeclareOk)
    peer.say(publish_frames(1, "", f"{name}\n", b"to nobody") + publish_frames(1, "", name, b"1"))
    eventually(lambda: peer.counts(name)[0] == 1, "only the second is there")


@pytest.mark.parametrize(
    ("method", "answer"),
    [(commands.Queue.Bind, commands.Queue.BindOk), (commands.Queue.Unbind, commands.Queue.UnbindOk)],
    ids=["bind", "unbind"],
)
def test_line_ends_are_left_out_of_the_name_of_a_queue_that_is_bound_or_unbound(
    peer: Peer, name: str, method: Callable[..., base.Frame], answer: type[base.Frame]
) -> None:
    peer.ask(1, Declare(queue=name, exclusive=True), DeclareOk)
    say_with(peer, method(queue="x" * (len(name) + 1), exchange="amq.direct", routing_key="k"), f"{name}\n")
    peer.expect(1, answer)
