"""Reads of the beginning of a body: in memory, piece by piece from the store, and from a store that fails."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.core.large_bodies import PIECE_OCTETS, PieceBudget
from penstock.core.large_content import large_content
from penstock.driver.driver import BrokerDriver
from penstock.errors import InternalError
from penstock.flow.wait import Waits
from penstock.operations.body_reads import beginning_of_body, part_of_body
from penstock.protocols.amqp091.content_frames import make_content
from tests.support.piece_store import PieceStore


def read(steps: Waits[bytes], store: PieceStore) -> bytes:
    """Do all steps; the store answers at each wait."""
    while True:
        try:
            wait = next(steps)
        except StopIteration as end:
            body: bytes = end.value
            return body
        while wait is not None and not wait.is_over:
            assert store.read() > 0


@pytest.fixture
def store(driver: BrokerDriver) -> PieceStore:
    return PieceStore(driver.broker.large)


def large(driver: BrokerDriver, body: bytes) -> bytes:
    arrival = driver.broker.large.begin(PieceBudget(driver.broker.large, None))
    for start in range(0, len(body), PIECE_OCTETS):
        arrival.append(body[start : start + PIECE_OCTETS])
    return large_content(make_content(Properties(), b""), arrival.finish([]))


BODY = bytes(range(256)) * (3 * PIECE_OCTETS // 256) + b"end"


@pytest.mark.parametrize("most", [0, 1, PIECE_OCTETS, PIECE_OCTETS + 1, len(BODY)])
def test_beginning_of_a_stored_body_is_read_piece_by_piece(driver: BrokerDriver, store: PieceStore, most: int) -> None:
    content = large(driver, BODY)
    store.write()
    assert read(beginning_of_body(driver.broker, content, most), store) == BODY[:most]


@pytest.mark.parametrize("start", [0, 1, PIECE_OCTETS, PIECE_OCTETS + 7, len(BODY) - 1, len(BODY), len(BODY) + 5])
@pytest.mark.parametrize("most", [0, 2, PIECE_OCTETS + 3])
def test_part_of_a_stored_body_is_read_from_an_index_on(
    driver: BrokerDriver, store: PieceStore, start: int, most: int
) -> None:
    content = large(driver, BODY)
    store.write()
    assert read(part_of_body(driver.broker, content, start, most), store) == BODY[start : start + most]


def test_part_of_a_body_in_memory_needs_no_wait(driver: BrokerDriver) -> None:
    steps = part_of_body(driver.broker, make_content(Properties(), b"body"), 1, 2)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == b"od"


def test_beginning_of_a_body_in_memory_needs_no_wait(driver: BrokerDriver) -> None:
    steps = beginning_of_body(driver.broker, make_content(Properties(), b"body"), 3)
    with pytest.raises(StopIteration) as end:
        next(steps)
    assert end.value.value == b"bod"


def test_body_that_the_store_cannot_read_is_an_error(driver: BrokerDriver, store: PieceStore) -> None:
    content = large(driver, BODY)
    store.write()
    store.fault = "the disk is broken"
    with pytest.raises(InternalError, match="cannot be read from the store: the disk is broken"):
        read(beginning_of_body(driver.broker, content, len(BODY)), store)
