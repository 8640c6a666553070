"""Invalid arguments are refused at declaration, in a sentence, and nothing is created."""

from __future__ import annotations

import pytest
from pamqp import commands

from tests.support.brokers import BrokerProcess, eventually, some_name
from tests.support.raw_client import Peer, open_peer, publish_frames


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x-max-lenght": 7}, "has no argument 'x-max-lenght'; did you mean x-max-length?"),
        ({"capacity-messages": 10, "stop-messages": 11}, "stop-messages=11 is above the capacity of 10 messages"),
    ],
)
def test_arguments_that_cannot_be_meant_are_406(peer: Peer, arguments: dict[str, object], said: str) -> None:
    peer.send(1, commands.Queue.Declare(queue="refused", arguments=arguments))
    code, text = peer.refused(1)
    assert code == 406
    assert text.startswith(("PRECONDITION_FAILED - queue 'refused': ", "PRECONDITION_FAILED - queue 'refused' has no "))
    assert said in text
    peer.channel(1)
    peer.send(1, commands.Queue.Declare(queue="refused", passive=True))
    assert peer.refused(1)[0] == 404, "nothing is created"


def test_declaration_of_a_stream_that_is_not_durable_closes_its_channel(broker: BrokerProcess) -> None:
    with open_peer(broker) as peer:
        peer.channel(2)
        peer.send(1, commands.Queue.Declare(queue="later", arguments={"x-queue-type": "stream"}))
        code, text = peer.refused(1)
        assert (code, "invalid property 'non-durable' for a queue of type stream" in text) == (406, True), text
        peer.send(2, commands.Queue.Declare(queue="later", passive=True))
        assert peer.refused(2)[0] == 404, "nothing is created, and the other channel is open"


def test_message_larger_than_its_queues_capacity_is_311_and_other_channels_live(peer: Peer) -> None:
    queue = peer.declare(**{"capacity-bytes": 1000})
    peer.channel(2)
    peer.confirm(2)
    peer.say(publish_frames(1, "", queue, bytes(2000)) + publish_frames(2, "", queue, b"small"))
    closed, confirmed = None, None
    for _ in range(2):
        channel, method = peer.read_method()
        if channel == 1:
            closed = method
        else:
            confirmed = method
    assert isinstance(closed, commands.Channel.Close)
    assert closed.reply_code == 311
    assert f"can never fit into queue '{queue}' with its capacity of 1,000 bytes" in closed.reply_text
    assert isinstance(confirmed, commands.Basic.Ack)
    assert peer.ask(2, commands.Queue.Purge(queue=queue), commands.Queue.PurgeOk).message_count == 1


def test_argument_without_effect_is_logged_once(own_broker: BrokerProcess) -> None:
    with open_peer(own_broker) as peer:
        for _ in range(3):
            peer.declare(**{"x-queue-mode": "lazy", "x-queue-version": 2})
    said = eventually(lambda: own_broker.logged("argument x-queue-mode of a queue"), "the line")
    assert len(said) == 1
    assert len(own_broker.await_logged("argument x-queue-version of a queue")) == 1


def test_queue_expires_though_it_is_asked_for_with_other_arguments(broker: BrokerProcess) -> None:
    name = some_name("expiring")
    with open_peer(broker) as peer:
        peer.declare_shared(name, x_expires=300)

        def is_declared_anew() -> bool:
            peer.send(1, commands.Queue.Declare(queue=name, exclusive=True, arguments={"x-expires": 299}))
            if isinstance(peer.answer(), commands.Queue.DeclareOk):
                return True
            peer.send(1, commands.Channel.CloseOk())
            peer.channel(1)
            return False

        eventually(is_declared_anew, "the unused queue expires")
