"""Clients that end with very many unsettled messages."""

from __future__ import annotations

from penstock.flow.work import SHARE, UNITS_A_TURN
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import Dialogue, cut, make_driver, output_of, publish

MANY = 6 * SHARE
CONNECTION_CLOSE = method_frame(0, spec.CONNECTION_CLOSE, reply_code=200)


def consume(queue: str, channel: int = 1, tag: str = "c", **how: object) -> bytes:
    return method_frame(channel, spec.BASIC_CONSUME, queue=queue, consumer_tag=tag, **how)


def with_many_unsettled(count: int = MANY, **arguments: object) -> tuple[Dialogue, Dialogue]:
    """A client that has very many messages and has settled none of them, and another client."""
    driver = make_driver()
    client, other = Dialogue(driver), Dialogue(driver)
    other.declare("q", **arguments)
    for _ in range(0, count, 1000):
        other.say(publish("q", b"x") * 1000)
    client.say(consume("q"))
    while not client.connection.output.writable:
        client.connection.output.drained()
        client.listen()
    queue = driver.broker.vhosts["/"].queues["q"]
    assert queue.unacked_messages == count
    return client, other


def heard(client: Dialogue) -> list[str]:
    """What a client is told, without any turn being made."""
    frames = cut(output_of(client.connection))
    return [decode_method(payload).name for kind, _, payload in frames if kind == spec.FRAME_METHOD]


def turns_until_over(client: Dialogue) -> int:
    """Make turns until nothing is under way; how many."""
    turns = 0
    broker = client.driver.broker
    while broker.turns.chores.pending():
        before = broker.work.done
        client.driver.run_turn()
        turns += 1
        assert broker.work.done - before <= UNITS_A_TURN + 400
    return turns
