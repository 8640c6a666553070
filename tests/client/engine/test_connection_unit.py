"""Units of work: their ends, and the fate of their messages."""

from __future__ import annotations

import pytest

from penstock.client.engine.connection import OPEN, Engine, Unit
from penstock.client.engine.outcomes import REFUSED, UNKNOWN, TransactionAborted, TransactionInDoubt
from penstock.client.engine.terms import ConnectionTerms


@pytest.fixture
def engine() -> Engine:
    """Return a connection that is open."""
    engine = Engine(ConnectionTerms())
    engine.phase = OPEN
    return engine


def test_unit_is_open_while_the_transport_exists(engine: Engine) -> None:
    unit = Unit(engine)
    unit.check()
    assert not unit.is_over()


def test_unit_ends_once_and_keeps_the_first_reason(engine: Engine) -> None:
    unit = Unit(engine)
    first = TransactionAborted("first")
    assert unit.end(first) is first
    assert unit.end(TransactionAborted("second")) is first
    with pytest.raises(TransactionAborted, match="first"):
        unit.check()


@pytest.mark.parametrize(
    ("is_committing", "kind", "outcome"), [(False, TransactionAborted, REFUSED), (True, TransactionInDoubt, UNKNOWN)]
)
def test_unit_of_another_transport_is_over(
    engine: Engine, is_committing: bool, kind: type[Exception], outcome: int
) -> None:
    unit = Unit(engine)
    unit.commit(is_committing)
    engine.epoch += 1
    assert unit.is_over()
    assert type(unit.error) is kind
    assert unit.outcome() == outcome
