"""Calls with answers, and the wait for outcomes, as steps of an engine."""

from __future__ import annotations

from penstock.client.engine.connection import Engine
from penstock.client.engine.messages import Message
from penstock.client.engine.waits import Steps
from penstock.client.shells import Pages


def drain(engine: Engine, timeout: float | None = None) -> Steps[None]:
    """Wait until every message that was sent has its outcome, at most `timeout` seconds for each publisher."""
    for publisher in list(engine.publishers):
        yield from publisher.draining(timeout)


def call(
    engine: Engine,
    queue: str,
    message: bytes | Message,
    *,
    exchange: str = "",
    routing_key: str = "",
    timeout: float | None = None,
) -> Steps[Message]:
    """Send a message to a queue, or with an exchange and a routing key, and return the answer to it.

    The receiver answers by `message.reply`. The message expires with the call. Raises `Timeout` after `timeout` seconds
    (None: the option), `MessageRefused` or `LinkClosed` if it reached no queue, and `ConnectionLost`: then the call may
    have been carried out. At most 1,000 calls of a target are unanswered; further calls wait. Late answers are dropped,
    and counted in `late_answers` of the connection.
    """
    _check_target(queue, exchange, routing_key)
    requester = engine.services.requester(engine, exchange, queue or routing_key)
    return (yield from requester.calling(message, timeout))


def answers(
    engine: Engine,
    queue: str,
    message: bytes | Message,
    *,
    exchange: str = "",
    routing_key: str = "",
    timeout: float | None = None,
) -> Pages[Message]:
    """Send a message as `call` does, and yield its answers as they arrive, until the answer marked as the last.

    The receiver answers by `receiver.answer`; the answer of `message.reply` is a list of one. Raises as `call`, and
    `Timeout` when the last answer has not arrived within `timeout` seconds (None: the option). The answers have a queue
    of their own, and its consumer has a window: a service that is faster than the caller waits.
    """
    from penstock.client.engine.requester import AnswerList

    _check_target(queue, exchange, routing_key)
    return AnswerList(engine, exchange, queue or routing_key, message, timeout)


def _check_target(queue: str, exchange: str, routing_key: str) -> None:
    if queue and (exchange or routing_key):
        raise ValueError("a call goes to a queue, or to an exchange with a routing key")
