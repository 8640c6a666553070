"""Reconnection attempts: each error is followed by the next attempt, and a final end is reported."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

import penstock
import penstock.sync
from penstock.client import calls
from penstock.client.aio import Connection
from penstock.client.errors import ConnectError, LoginRefused, WrongProtocol, WrongServer
from tests.client.conversations import both_protocols, fresh, until, url_of
from tests.support.tcp_proxy import proxied


class Token:
    """A function for tokens whose second call, that of the first attempt to connect again, ends in another way."""

    def __init__(self, end: Callable[[], object]) -> None:
        self.asked = 0
        self.end = end

    def __call__(self) -> str:
        self.asked += 1
        if self.asked == 2:
            return self.end()  # type: ignore[return-value]  # It may return no text.
        return "guest"


def raising(error: BaseException) -> Callable[[], object]:
    def end() -> object:
        raise error

    return end


class OwnError(Exception):
    """An error that the client cannot know."""


ENDS: dict[str, Callable[[], object]] = {
    "OSError": raising(OSError("the provider does not answer")),
    "ConnectionError": raising(ConnectionResetError()),
    "TimeoutError": raising(TimeoutError()),
    "ValueError": raising(ValueError("no JSON")),
    "KeyError": raising(KeyError("access_token")),
    "own": raising(OwnError()),
    "AssertionError": raising(AssertionError()),
    "RecursionError": raising(RecursionError()),
    "StopIteration": raising(StopIteration()),
    "cancelled future": raising(concurrent.futures.CancelledError()),
    "cancelled task": raising(asyncio.CancelledError()),
    "None": lambda: None,
    "bytes": lambda: b"guest",
}
"""Ends of a call for a token which are no token."""


def cut(connection: Connection) -> None:
    """Cut the connection off."""
    assert connection._transport is not None
    connection._transport.abort()


@both_protocols
@pytest.mark.parametrize("end", ENDS)
async def test_attempt_that_raises_is_logged_and_the_next_attempt_follows(
    broker_url: str, protocol: str, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = Token(ENDS[end])
    async with penstock.connect(url_of(broker_url, protocol, reconnect_delay="10ms"), token=token) as connection:
        queue = await connection.declare_queue(fresh("again"))
        publisher = connection.publisher(queue)
        await publisher.send(b"one")
        cut(connection)
        assert (await publisher.send(b"two")).state == "confirmed"
        assert token.asked == 3
    assert any("An attempt to connect again has failed" in record.message for record in caplog.records)


@both_protocols
@pytest.mark.parametrize("end", [name for name in ENDS if name != "cancelled task"])
def test_blocking_attempt_that_raises_is_logged_and_the_next_attempt_follows(
    broker_url: str, protocol: str, end: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = Token(ENDS[end])
    with penstock.sync.connect(url_of(broker_url, protocol, reconnect_delay="10ms"), token=token) as connection:
        queue = connection.declare_queue(fresh("again"))
        publisher = connection.publisher(queue)
        publisher.send(b"one")
        connection._socket.shutdown(socket.SHUT_RDWR)
        assert publisher.send(b"two").state == "confirmed"
        assert token.asked == 3
    assert any("An attempt to connect again has failed" in record.message for record in caplog.records)


@both_protocols
@pytest.mark.parametrize("is_async", [True, False])
async def test_first_call_for_a_token_raises_to_the_program(broker_url: str, protocol: str, is_async: bool) -> None:
    options = {"token": raising(OwnError())}
    if is_async:
        with pytest.raises(OwnError):
            await penstock.connect(url_of(broker_url, protocol), **options)
    else:
        with pytest.raises(OwnError):
            penstock.sync.connect(url_of(broker_url, protocol), **options)


@both_protocols
async def test_end_of_all_attempts_is_reported_with_the_last_error(broker_url: str, protocol: str) -> None:
    token = Token(raising(OwnError("no provider")))
    options = {"reconnect_delay": "10ms", "reconnect_attempts": 1}
    connection = await penstock.connect(url_of(broker_url, protocol, **options), token=token)
    events = connection.events()
    publisher = connection.publisher(await connection.declare_queue(fresh()))
    await publisher.send(b"one")
    cut(connection)
    assert [event.kind async for event in events] == ["lost", "closed"]
    with pytest.raises(penstock.ConnectionLost, match="no provider"):
        await publisher.send(b"two")
    await connection.close()


@both_protocols
async def test_keeper_that_a_stranger_cancels_ends_an_offline_connection(broker_url: str, protocol: str) -> None:
    connection = await penstock.connect(url_of(broker_url, protocol, reconnect_delay=60, reconnect_delay_max=60))
    publisher = connection.publisher(await connection.declare_queue(fresh()))
    events = connection.events()
    cut(connection)
    await until(lambda: connection._transport is None)
    waiting = asyncio.create_task(publisher.send(b"x"))
    await asyncio.sleep(0)
    connection._reconnecting.cancel()
    with pytest.raises(penstock.ConnectionLost):
        await waiting
    assert [event.kind async for event in events] == ["lost", "closed"]


@both_protocols
async def test_loss_after_reconnecting_was_cancelled_is_reported_as_the_end(broker_url: str, protocol: str) -> None:
    connection = await penstock.connect(url_of(broker_url, protocol))
    publisher = connection.publisher(await connection.declare_queue(fresh()))
    events = connection.events()
    connection._reconnecting.cancel()
    assert (await publisher.send(b"x")).state == "confirmed"
    cut(connection)
    assert [event.kind async for event in events] == ["closed"]
    with pytest.raises(penstock.ConnectionLost):
        await publisher.send(b"x")


@both_protocols
async def test_close_waits_for_outcomes_over_a_loss(broker_url: str, protocol: str) -> None:
    connection = await penstock.connect(url_of(broker_url, protocol, reconnect_delay="10ms"))
    publisher = connection.publisher(await connection.declare_queue(fresh()))
    await publisher.send(b"one")
    receipt = await publisher.publish(b"two")
    cut(connection)
    await connection.close()
    assert receipt.state == "confirmed"


FINAL = [
    (LoginRefused("h", 1, "x"), True, True),
    (WrongProtocol("h", 1, "x"), True, True),
    (WrongServer("h", 1, "x"), True, False),
    (ConnectError("h", 1, "x"), False, False),
    (OSError(), False, False),
    (OwnError(), False, False),
]
"""Errors of an attempt, whether they end a first one, and whether they end those after an open connection."""


@pytest.mark.parametrize(("error", "first", "again"), FINAL, ids=lambda value: type(value).__name__)
def test_error_that_ends_the_attempts(error: Exception, first: bool, again: bool) -> None:
    assert calls.is_final(error) is first
    assert calls.is_final(error, was_open=True) is again


@both_protocols
def test_blocking_call_without_a_broker_ends_at_the_time_out(
    broker_url: str, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "penstock")
    with proxied(urlsplit(broker_url).netloc) as proxy:
        url = url_of(f"amqp://{proxy.address}", protocol, reconnect_delay=60, reconnect_delay_max=60)
        connection = penstock.sync.connect(url)
        publisher = connection.publisher(connection.declare_queue(fresh()))
        publisher.send(b"one")
        proxy.forget(requests=False)
        receipt = publisher.publish(b"two")
        connection._socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(penstock.ConfirmTimeout):
        receipt.wait(0.2)
    with pytest.raises(penstock.FlowControlTimeout, match="the connection is lost"):
        publisher.send(b"three", timeout=0.2)
    assert connection.poll(0.05) is False
    connection.close(timeout=0.1)
    assert receipt.state == "unknown"
