"""Arguments that cannot be meant are refused at declaration, in a sentence, and nothing is created."""

from __future__ import annotations

import pytest
from pamqp import commands

from tests.support.brokers import BrokerProcess, eventually
from tests.support.raw_client import Peer, open_peer, publish_frames


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"stop-messages": 10, "resume-messages": 20}, "resume-messages=20 is above stop-messages=10; resume must be"),
        (
            {"qpid.flow_stop_size": 100, "qpid.flow_resume_size": 500},
            "qpid.flow_resume_size=500 is above qpid.flow_stop",
        ),
        ({"capacity-bytes": 1000, "x-qpid-flow-resume-capacity": 1001}, "x-qpid-flow-resume-capacity=1001 is above"),
        ({"capacity-messages": 10, "stop-messages": 11}, "stop-messages=11 is above the capacity of 10 messages"),
        ({"x-max-length": -5}, "x-max-length=-5 is negative; the least is 0"),
        ({"capacity-bytes": -1}, "capacity-bytes=-1 is negative"),
        (
            {"qpid.flow_stop_cuont": 1000},
            "unknown argument qpid.flow_stop_cuont=1000; did you mean qpid.flow_stop_count?",
        ),
        ({"capacity-byte": 1000}, "unknown argument capacity-byte=1000; did you mean capacity-bytes?"),
        ({"x-max-lenght": 7}, "unknown argument x-max-lenght=7; did you mean x-max-length?"),
        ({"stop-percent": 101}, "stop-percent=101 is not a percentage between 0 and 100"),
        ({"stop-percent": 50, "resume-percent": 60}, "resume-percent=60 is above stop-percent=50"),
        ({"overflow": "explode"}, "overflow=explode is not an overflow policy"),
        ({"x-overflow": "drop-haed"}, "did you mean drop-head?"),
        ({"capacity-messages": "many"}, "is not a whole number"),
        ({"capacity-messages": True}, "is not a whole number"),
        ({"capacity-messages": 5, "qpid.max_count": 6}, "contradicts"),
        ({"resume-messages": 5}, "has no stop threshold to go with"),
        ({"x-expires": 0}, "x-expires=0"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_arguments_that_cannot_be_meant_are_406(peer: Peer, arguments: dict[str, object], said: str) -> None:
    peer.send(1, commands.Queue.Declare(queue="refused", arguments=arguments))
    code, text = peer.refused(1)
    assert code == 406
    assert text.startswith("PRECONDITION_FAILED - queue 'refused': ")
    assert said in text
    peer.channel(1)
    peer.send(1, commands.Queue.Declare(queue="refused", passive=True))
    assert peer.refused(1)[0] == 404, "nothing is created"


def test_stream_is_540_with_what_to_use_instead(broker: BrokerProcess) -> None:
    with open_peer(broker) as peer:
        peer.send(1, commands.Queue.Declare(queue="later", arguments={"x-queue-type": "stream"}))
        code, text = peer.refused(0)
        assert (code, "a cursor reads a queue again and again" in text) == (540, True), text


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
    assert closed.reply_text is not None
    assert f"can never fit into queue '{queue}' with its capacity of 1,000 bytes" in closed.reply_text
    assert isinstance(confirmed, commands.Basic.Ack)
    assert peer.ask(2, commands.Queue.Purge(queue=queue), commands.Queue.PurgeOk).message_count == 1


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        ({"durable": True}, {"durable": False}, "durable"),
        ({"auto_delete": True}, {"auto_delete": False}, "auto_delete"),
        ({"arguments": {"capacity-bytes": 5000}}, {"arguments": {"capacity-bytes": 6000}}, "capacity-bytes"),
        ({"arguments": {}}, {"arguments": {"x-message-ttl": 100}}, "x-message-ttl"),
    ],
)
def test_another_declaration_of_the_same_name_is_406_and_names_the_difference(
    broker: BrokerProcess, first: dict[str, bool], second: dict[str, bool], named: str
) -> None:
    with open_peer(broker) as peer:
        peer.ask(1, commands.Queue.Declare(queue="twice", **first), commands.Queue.DeclareOk)
        peer.send(1, commands.Queue.Declare(queue="twice", **second))
        code, text = peer.refused(1)
        assert code == 406
        assert f"inequivalent arg '{named}' for queue 'twice' in vhost '/'" in text
        peer.channel(1)
        peer.ask(1, commands.Queue.Delete(queue="twice"), commands.Queue.DeleteOk)


def test_broker_s_own_names_cannot_be_taken(broker: BrokerProcess) -> None:
    with open_peer(broker) as peer:
        for number, method in enumerate(
            [
                commands.Queue.Declare(queue="amq.mine"),
                commands.Exchange.Declare(exchange="amq.mine"),
                commands.Exchange.Delete(exchange="amq.topic"),
                commands.Exchange.Delete(exchange="penstock.control"),
                commands.Exchange.Delete(exchange=""),
            ],
            start=2,
        ):
            peer.channel(number)
            peer.send(number, method)
            assert peer.refused(number)[0] == 403, method


def test_argument_without_effect_is_said_once(own_broker: BrokerProcess) -> None:
    with open_peer(own_broker) as peer:
        for _ in range(3):
            peer.declare(**{"x-queue-mode": "lazy", "x-queue-version": 2})
    said = eventually(lambda: own_broker.logged("argument x-queue-mode of a queue"), "the line")
    assert len(said) == 1
    assert len(own_broker.await_logged("argument x-queue-version of a queue")) == 1
