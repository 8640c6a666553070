"""Fixtures of experiments with flow control: one broker, who takes part, and settings that end with each experiment.

For the conftest of each folder that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from penstock.client.errors import ChannelClosed
from tests.support.brokers import BrokerProcess, serving, settings_file, some_name
from tests.support.checklist_clients import Board, Consumer, Producer, Taker

SUMS = "sums"
"""A virtual host for experiments with the sum of its queues."""
TEST = "test"
"""A virtual host with the name of that in Qpid's documents."""


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that all experiments share; it must outlive them all."""
    folder = tmp_path_factory.mktemp("experiments")
    with serving(folder, *settings_file(folder, f'[broker]\nvhosts = ["/", "{SUMS}", "{TEST}"]\n')) as process:
        yield process
        assert process.process.poll() is None, process.log()
        assert "Traceback" not in process.log()


@pytest.fixture
def board(broker: BrokerProcess) -> Iterator[Board]:
    with closing(Board(broker)) as board:
        yield board


@pytest.fixture
def sums(broker: BrokerProcess) -> Iterator[Board]:
    """The board of the other virtual host."""
    with closing(Board(broker, SUMS)) as board:
        yield board


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


def _maker_of(kind: Callable[..., Any]) -> Any:
    """A fixture that makes some of a kind, and closes their connections."""

    @pytest.fixture
    def maker(broker: BrokerProcess) -> Iterator[Callable[..., Any]]:
        with ExitStack() as made:
            yield lambda *words, **options: made.enter_context(closing(kind(broker, *words, **options)))

    return maker


producer = _maker_of(Producer)
taker = _maker_of(Taker)
consumer = _maker_of(Consumer)


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
