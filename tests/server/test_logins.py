"""Logins of a broker: what its settings accept, and the threads that verify."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.connections.login import Verification
from penstock.driver.services import DriverServices
from penstock.errors import StartError
from penstock.server.event_loop import EventLoop
from penstock.server.logins import Logins
from penstock.settings.config import Settings, load
from tests.support.back_ends import BackEndServer, back_end
from tests.support.driven_connection import make_driver


@pytest.fixture
def server() -> Iterator[BackEndServer]:
    with back_end() as found:
        yield found


class Noted(Verification):
    """A verification that reports its thread."""

    def __init__(self) -> None:
        super().__init__("10.0.0.1")
        self.thread: threading.Thread | None = None
        self.ended = asyncio.get_running_loop().create_future()

    def run(self) -> None:
        self.thread = threading.current_thread()

    def conclude(self) -> None:
        self.ended.set_result(None)


async def test_credentials_are_verified_in_a_thread_after_the_start() -> None:
    driver = make_driver()
    logins = Logins(Settings(), driver)
    event_loop = EventLoop(driver, asyncio.get_running_loop())
    logins.start(event_loop)
    verification = Noted()
    driver.services.authenticator.start(verification)
    await asyncio.wait_for(verification.ended, 60)
    logins.stop()
    event_loop.stop()
    assert verification.thread is not None
    await asyncio.to_thread(verification.thread.join, 60)
    assert not verification.thread.is_alive()


def test_broker_without_remote_users_has_only_stored_users() -> None:
    driver = make_driver()
    logins = Logins(Settings(), driver)
    assert isinstance(driver.services, DriverServices)
    assert (driver.has_users_elsewhere, driver.services.tokens, driver.services.served) == (False, None, None)
    logins.stop()  # It was not started.


def test_back_end_decides_about_users_that_the_broker_does_not_know(server: BackEndServer, tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(f'[auth-http]\nuser_path = "{server.url("/auth/user")}"\n')
    driver = make_driver()
    logins = Logins(load(file), driver)
    assert isinstance(driver.services, DriverServices)
    served = driver.services.served
    assert served is not None
    assert (driver.has_users_elsewhere, served.knows("root"), served.knows("guest")) == (True, True, False)
    logins.stop()


def test_tokens_without_their_library_are_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "penstock.toml"
    (tmp_path / "keys.json").write_text('{"keys": []}')
    file.write_text('[oauth]\nresource_server_id = "penstock"\nkeys = "keys.json"\n')
    settings = load(file)
    assert settings.tokens is not None
    monkeypatch.setitem(sys.modules, "jwt.algorithms", None)
    with pytest.raises(StartError, match=r"^\[oauth\] needs PyJWT and cryptography: pip install 'penstock\[oauth\]'$"):
        Logins(settings, make_driver())
