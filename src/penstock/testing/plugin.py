"""pytest plugin of the test kit: its fixtures and options. Penstock itself is imported with the first fixture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock import Connection
    from penstock.sync import Connection as SyncConnection
    from penstock.testing import BrokerProcess, BrokerUnderTest, Server, SlowConsumer, Subject, VirtualClock

CONFIG = "penstock_config"
WITHIN = "penstock_within"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options `--penstock-config` and `--penstock-within`, and the ini values of the same names."""
    config_help = "settings file (TOML) of the session's broker; default: a broker in memory without heartbeats"
    within_help = "real seconds that assertions about a broker wait; default: 10"
    group = parser.getgroup("penstock", "test broker")
    group.addoption("--penstock-config", metavar="FILE", dest=CONFIG, help=config_help)
    group.addoption("--penstock-within", metavar="SECONDS", dest=WITHIN, help=within_help)
    parser.addini(CONFIG, config_help)
    parser.addini(WITHIN, within_help)


def _within_s(config: pytest.Config) -> float:
    from penstock.testing.expectations import WITHIN_S

    given = config.getoption(WITHIN) or config.getini(WITHIN)
    if not given:
        return WITHIN_S
    try:
        within_s = float(given)
    except ValueError:
        within_s = -1.0
    if not within_s > 0:
        raise pytest.UsageError(f"{WITHIN} is {given!r}: it must be a number of seconds above 0")
    return within_s


def _config_file(config: pytest.Config) -> Path | None:
    given = config.getoption(CONFIG) or config.getini(CONFIG)
    return None if not given else config.rootpath / str(given)


@pytest.fixture(scope="session")
def penstock_server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """Return the broker of the session: in a thread of this process, in memory.

    Override this fixture to use another broker.
    """
    from penstock.testing import server

    with server(settings=_config_file(pytestconfig), within_s=_within_s(pytestconfig)) as running:
        yield running


@pytest.fixture
def penstock_broker(penstock_server: Server) -> Iterator[BrokerUnderTest]:
    """Return the broker for this test: a virtual host of its own, and faults on demand."""
    with penstock_server.virtual_host() as broker:
        yield broker


@pytest.fixture
def penstock_url(penstock_broker: BrokerUnderTest) -> str:
    """Return the URL of this test's virtual host, for any AMQP client."""
    return penstock_broker.url


@pytest.fixture
def penstock_connection(penstock_url: str) -> Connection:
    """Return a connection for asyncio to this test's virtual host; the test opens it: `async with` or `await`."""
    import penstock

    return penstock.connect(penstock_url)


@pytest.fixture
def penstock_sync_connection(penstock_url: str) -> Iterator[SyncConnection]:
    """Return an open connection with blocking calls to this test's virtual host."""
    from penstock import sync

    with sync.connect(penstock_url) as connection:
        yield connection


@pytest.fixture
def penstock_clock(penstock_server: Server) -> VirtualClock:
    """Return the clock of the broker, which a test may advance."""
    return penstock_server.clock


@pytest.fixture
def penstock_full_queue(penstock_broker: BrokerUnderTest) -> Subject:
    """Return a queue that is full: capacity 2, hold deadline 60 s; the next publish is held."""
    return penstock_broker.full_queue()


@pytest.fixture
def penstock_slow_consumer(penstock_broker: BrokerUnderTest) -> Callable[..., SlowConsumer]:
    """Return a function that consumes slowly: `penstock_slow_consumer("orders", rate=5)`, in messages a second."""
    return penstock_broker.slow_consumer


@pytest.fixture
def penstock_process(tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[BrokerProcess]:
    """Return a broker in a process of its own, with a store below `tmp_path`."""
    from penstock.testing import BrokerProcess

    broker = BrokerProcess(tmp_path, within_s=_within_s(pytestconfig))
    try:
        yield broker
    finally:
        broker.kill()
