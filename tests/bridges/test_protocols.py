"""Protocols of the two ends of a bridge. Other brokers are in tests/bridges/test_strangers.py."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from penstock.bridges.protocols import AMQP091, AMQP10, AUTO, UnfitProtocol, check_target, meet, with_protocol
from penstock.client.aio import Connection
from penstock.client.errors import WrongProtocol
from penstock.client.options import Options
from tests.support.brokers import BrokerProcess, serving

BOTH = (AMQP091, AMQP10)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("protocols")) as broker:
        yield broker


class Meeting:
    """Two ends at one broker, of which each has some protocols."""

    def __init__(self, broker: BrokerProcess, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        self._url = broker.url
        self._has = {"source": source, "target": target}
        self.attempts: list[tuple[str, str]] = []
        self.open: list[Connection] = []

    async def _opened(self, noun: str, options: Options) -> Connection:
        protocol = options["protocol"]
        self.attempts.append((noun, protocol))
        if protocol not in self._has[noun]:
            raise WrongProtocol("host", 5672, "the server there speaks another version of AMQP")
        connection = await Connection(options)
        self.open.append(connection)
        return connection

    async def _close(self, connection: Connection) -> None:
        self.open.remove(connection)
        await connection.close()

    async def met(self, source: str, target: str) -> tuple[str, str]:
        """Return the protocols of both ends, after their connections are closed."""
        options = Options(self._url, {})
        old, new = with_protocol(options, source), with_protocol(options, target)
        opens = (partial(self._opened, noun) for noun in ("source", "target"))
        try:
            found = await meet(old, new, *opens, self._close)
            assert sorted(map(id, found)) == sorted(map(id, self.open))
            return found[0].protocol, found[1].protocol
        finally:
            for connection in self.open:
                await connection.close()


CASES = [
    (BOTH, BOTH, AUTO, AUTO, (AMQP091, AMQP091)),
    (BOTH, BOTH, AMQP10, AUTO, (AMQP10, AMQP10)),
    (BOTH, BOTH, AUTO, AMQP10, (AMQP10, AMQP10)),
    (BOTH, BOTH, AMQP10, AMQP091, (AMQP10, AMQP091)),
    ((AMQP10,), BOTH, AUTO, AUTO, (AMQP10, AMQP10)),
    (BOTH, (AMQP10,), AUTO, AUTO, (AMQP10, AMQP10)),
    ((AMQP091,), (AMQP10,), AUTO, AUTO, (AMQP091, AMQP10)),
    ((AMQP10,), (AMQP091,), AUTO, AUTO, (AMQP10, AMQP091)),
    ((AMQP10,), (AMQP091,), AMQP10, AUTO, (AMQP10, AMQP091)),
]


@pytest.mark.parametrize(("has_source", "has_target", "source", "target", "expected"), CASES)
async def test_ends_have_one_protocol_where_both_brokers_have_one(
    broker: BrokerProcess,
    has_source: tuple[str, ...],
    has_target: tuple[str, ...],
    source: str,
    target: str,
    expected: tuple[str, str],
) -> None:
    meeting = Meeting(broker, has_source, has_target)
    assert await meeting.met(source, target) == expected
    assert len(meeting.attempts) <= 5


@pytest.mark.parametrize("noun", ["source", "target"])
async def test_protocol_that_an_end_has_not_is_an_error(broker: BrokerProcess, noun: str) -> None:
    source, target = ((AMQP091,), BOTH) if noun == "source" else (BOTH, (AMQP091,))
    with pytest.raises(WrongProtocol):
        await Meeting(broker, source, target).met(AMQP10, AMQP10)


async def test_options_of_a_bridge_keep_their_own_protocol(broker: BrokerProcess) -> None:
    options = Options(broker.url, {})
    assert (with_protocol(options, AMQP10)["protocol"], options["protocol"]) == (AMQP10, AUTO)


@pytest.mark.parametrize(
    ("product", "version", "protocol", "is_fit"),
    [
        ("RabbitMQ", "3.13.7", AMQP10, False),
        ("RabbitMQ", "3.13.7", AMQP091, True),
        ("RabbitMQ", "4.1.0", AMQP10, True),
        ("Penstock", "0.1.0", AMQP10, True),
    ],
)
async def test_rabbitmq_3_is_unfit_as_a_target_over_amqp10(
    broker: BrokerProcess, product: str, version: str, protocol: str, is_fit: bool
) -> None:
    async with Connection(with_protocol(Options(broker.url, {}), protocol)) as connection:
        connection.core().server = {"product": product, "version": version}
        if is_fit:
            check_target(connection)
        else:
            with pytest.raises(UnfitProtocol, match=r"RabbitMQ 3\.13\.7, confirms messages without a queue"):
                check_target(connection)
