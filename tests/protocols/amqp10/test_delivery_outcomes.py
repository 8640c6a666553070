"""Outcomes of delivery states."""

from __future__ import annotations

import pytest

from penstock.core.consume.outcome import Outcome
from penstock.protocols.amqp10.delivery_outcomes import outcome_of
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite


@pytest.mark.parametrize(
    ("code", "fields", "expected"),
    [
        (spec.ACCEPTED, {}, Outcome.ACCEPTED),
        (spec.REJECTED, {}, Outcome.REJECTED),
        (spec.RELEASED, {}, Outcome.RELEASED),
        (spec.MODIFIED, {}, Outcome.RELEASED),
        (spec.MODIFIED, {"delivery_failed": True}, Outcome.FAILED),
        (spec.MODIFIED, {"delivery_failed": True, "undeliverable_here": True}, Outcome.UNDELIVERABLE),
        (spec.RECEIVED, {"section_number": 0, "section_offset": 0}, Outcome.RELEASED),
    ],
)
def test_state_asks_for_its_outcome(code: int, fields: dict[str, object], expected: Outcome) -> None:
    assert outcome_of(code, composite(code, **fields)) is expected


@pytest.mark.parametrize(
    ("code", "expected"), [(spec.ACCEPTED, Outcome.ACCEPTED), (spec.MODIFIED, Outcome.RELEASED), (-1, Outcome.RELEASED)]
)
def test_state_may_have_no_fields(code: int, expected: Outcome) -> None:
    assert outcome_of(code, None) is expected
