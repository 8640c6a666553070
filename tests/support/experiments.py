"""Fixtures of experiments with flow control: one broker, who takes part, and settings that end with each experiment.

For the conftest of each folder that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.client.errors import ChannelClosed
from tests.support.brokers import BrokerProcess, serving, some_name
from tests.support.checklist_clients import Board, Consumer, Producer, Taker

SUMS = "sums"
"""A virtual host for experiments with the sum of its queues."""
TEST = "test"
"""A virtual host with the name of that in Qpid's documents."""


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that all experiments share; it must outlive them all."""
    folder = tmp_path_factory.mktemp("experiments")
    (folder / "penstock.toml").write_text(f'[broker]\nvhosts = ["/", "{SUMS}", "{TEST}"]\n')
    with serving(folder, "--config", str(folder / "penstock.toml")) as process:
        yield process
        assert process.process.poll() is None, process.log()
        assert "Traceback" not in process.log()


@pytest.fixture
def board(broker: BrokerProcess) -> Iterator[Board]:
    board = Board(broker)
    yield board
    board.close()


@pytest.fixture
def sums(broker: BrokerProcess) -> Iterator[Board]:
    """The board of the other virtual host."""
    board = Board(broker, SUMS)
    yield board
    board.close()


@pytest.fixture
def queue(board: Board, sums: Board) -> Iterator[Callable[..., str]]:
    """Declares queues that end with the test: nothing of theirs remains for the next one's settings to meet."""
    made: list[tuple[Board, str]] = []

    def declare(
        arguments: dict[str, object] | None = None, name: str = "", prefix: str = "q", where: Board = board
    ) -> str:
        name, _, _ = where.keeper.queue_declare(name or some_name(prefix), arguments=arguments)
        made.append((where, name))
        return name

    yield declare
    for where, name in made:
        where.keeper.queue_delete(name)


@pytest.fixture
def refused(board: Board) -> Callable[[dict[str, object]], str]:
    """Declares a queue that must be refused (406), and returns the sentence."""

    def declare(arguments: dict[str, object]) -> str:
        name = some_name("q")
        with pytest.raises(ChannelClosed) as told:
            board.connection.channel().queue_declare(name, arguments=arguments)
        assert told.value.code == 406
        with pytest.raises(ChannelClosed) as absent:
            board.connection.channel().queue_declare(name, passive=True)
        assert absent.value.code == 404, "nothing half made stays behind"
        return told.value.text

    return declare


@pytest.fixture
def producer(broker: BrokerProcess) -> Iterator[Callable[..., Producer]]:
    """Makes producers, and closes their connections."""
    made: list[Producer] = []

    def producer(*words: Any, **options: Any) -> Producer:
        made.append(Producer(broker, *words, **options))
        return made[-1]

    yield producer
    for each in made:
        each.close()


@pytest.fixture
def taker(broker: BrokerProcess) -> Iterator[Callable[..., Taker]]:
    """Makes takers, and closes their connections."""
    made: list[Taker] = []

    def taker(*words: Any, **options: Any) -> Taker:
        made.append(Taker(broker, *words, **options))
        return made[-1]

    yield taker
    for each in made:
        each.close()


@pytest.fixture
def say(board: Board) -> Iterator[Callable[..., None]]:
    """Sets settings for a pattern, and takes them back at the end."""
    said: set[tuple[str, str]] = set()

    def say(scope: str, pattern: str, settings: dict[str, object]) -> None:
        board.control.set(scope, pattern, settings)
        said.add((scope, pattern))

    yield say
    for scope, pattern in said:
        board.control.unset(scope, pattern)


@pytest.fixture
def consumer(broker: BrokerProcess) -> Iterator[Callable[..., Consumer]]:
    """Makes consumers, and closes their connections."""
    made: list[Consumer] = []

    def consumer(*words: Any, **options: Any) -> Consumer:
        made.append(Consumer(broker, *words, **options))
        return made[-1]

    yield consumer
    for each in made:
        each.close()
