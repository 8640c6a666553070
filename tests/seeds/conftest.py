"""One broker for all documents, who takes part in their experiments, and settings that end with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.brokers import BrokerProcess, serving
from tests.support.experiments import board, broker, consumer, producer, queue, refused, say, sums, taker

if TYPE_CHECKING:
    from tests.support.proton_links import ProtonClient

__all__ = ["board", "broker", "consumer", "producer", "queue", "refused", "say", "sums", "taker"]


@pytest.fixture(scope="session")
def storing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a store, for what pages to disk or is limited by it."""
    folder = tmp_path_factory.mktemp("storing")
    with serving(folder, "--data", str(folder / "data")) as process:
        yield process
        assert "Traceback" not in process.log()


@pytest.fixture
def proton(broker: BrokerProcess) -> Iterator[Callable[[], ProtonClient]]:
    """Makes clients of AMQP 1.0, and closes their connections."""
    from tests.support.proton_links import ProtonClient  # Skips the test where Qpid Proton could not be built.

    made: list[ProtonClient] = []

    def client() -> ProtonClient:
        made.append(ProtonClient(broker))
        return made[-1]

    yield client
    for each in made:
        each.close()
