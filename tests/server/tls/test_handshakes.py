"""Handshakes in threads."""

from __future__ import annotations

import asyncio
import ssl
import threading
from pathlib import Path

import pytest

from penstock.server.tls.contexts import Contexts
from penstock.server.tls.handshakes import THREADS_MAX, Handshake, Handshakes, StepLine, reason_of
from penstock.settings.file_tables import TlsSettings
from tests.support.certificates import localhost


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    return Contexts(TlsSettings(localhost(tmp_path).files())).context


async def test_handshake_steps_run_in_a_thread_and_end_in_the_loop(context: ssl.SSLContext) -> None:
    handshakes = Handshakes(asyncio.get_running_loop())
    told: asyncio.Future[tuple[bool, Exception | None, str]] = asyncio.get_running_loop().create_future()
    handshakes.submit(
        Handshake(context),
        lambda over, error: told.set_result((over, error, threading.current_thread().name)),
    )
    assert await told == (False, None, threading.current_thread().name)
    handshakes.stop()


def test_handshake_whose_connection_is_gone_costs_nothing(context: ssl.SSLContext) -> None:
    handshake = Handshake(context)
    handshake.given_up = True
    over, error = handshake.step()
    assert (over, handshake.tls) == (True, None)
    assert isinstance(error, ConnectionAbortedError)


def test_handshake_of_other_bytes_ends_with_a_reason(context: ssl.SSLContext) -> None:
    handshake = Handshake(context)
    handshake.incoming.write(b"GET / HTTP/1.1\r\n\r\n")
    over, error = handshake.step()
    assert over
    assert error is not None
    assert reason_of(error) == "the client speaks HTTP without TLS; let it use https://"
    assert reason_of(ConnectionAbortedError("a sentence of ours")) == "a sentence of ours"


def test_networks_take_turns_and_the_newest_step_of_a_network_comes_first(context: ssl.SSLContext) -> None:
    line = StepLine()
    made = [Handshake(context) for _ in range(5)]
    for handshake, network in zip(made, "aaaab", strict=True):
        handshake.network = network
        line.add(handshake, lambda over, error: None)
    line.remove(made[0])
    line.remove(made[0])
    taken = []
    while (step := line.take()) is not None:
        taken.append(made.index(step[0]))
    assert taken == [3, 4, 2, 1]


async def test_handshake_that_is_withdrawn_is_not_done(context: ssl.SSLContext) -> None:
    handshakes = Handshakes(asyncio.get_running_loop())
    told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    blocking = threading.Event()
    for _ in range(THREADS_MAX):
        busy = Handshake(context)
        busy.step = lambda: (blocking.wait(), (False, None))[1]  # type: ignore[method-assign]
        handshakes.submit(busy, lambda over, error: None)
    gone, last = Handshake(context), Handshake(context)
    handshakes.submit(last, lambda over, error: told.set_result("last"))
    handshakes.submit(gone, lambda over, error: told.set_result("gone"))
    handshakes.withdraw(gone)
    blocking.set()
    assert await told == "last"
    assert gone.tls is None
    handshakes.stop()
