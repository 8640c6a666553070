"""Outcomes that the delivery states of receivers ask for (section 3.4)."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from penstock.core.consume.outcome import AddedHeaders, Outcome, modified
from penstock.core.message_format import MessageFormats
from penstock.wire.amqp10.composite import Composite
from penstock.wire.amqp10.neutral_values import to_neutral
from penstock.wire.amqp10.spec import ACCEPTED, MODIFIED, REJECTED
from penstock.wire.amqp10.values import Symbol

REJECTED_CONDITION: Final = "x-rejected-condition"
REJECTED_DESCRIPTION: Final = "x-rejected-description"
"""Annotations of a dead letter, headers in AMQP 0-9-1: the error that its receiver rejected it with."""
REJECTED_NAME: Final = "amqp:rejected:list"
RELEASED_NAME: Final = "amqp:released:list"
"""Names of outcomes in the list of a source."""
ANNOTATIONS_MAX: Final = 32
"""Most annotations of one outcome; beyond, none is added."""
DESCRIPTION_LETTERS: Final = 255


def hears(attach: Composite, outcome: str) -> bool:
    """Tell whether the source of a sender lists an outcome (section 3.5.3); an empty list stands for all."""
    source = attach.inner("source")
    outcomes = [] if source is None else source.texts("outcomes")
    return not outcomes or outcome in outcomes


def headers_of(code: i64, state: object, formats: MessageFormats) -> AddedHeaders | None:
    """Return what a delivery state adds to its messages: annotations of `modified`, or the error of `rejected`.

    Only annotations whose key begins with "x-" are added, as for dead letters. None if there is nothing to add.
    """
    if not isinstance(state, Composite):
        return None
    headers: dict[str, object] = {}
    if code == REJECTED:
        error = state.inner("error")
        if error is not None:
            headers[REJECTED_CONDITION] = error.text("condition")[:DESCRIPTION_LETTERS]
            if error.text("description"):
                headers[REJECTED_DESCRIPTION] = error.text("description")[:DESCRIPTION_LETTERS]
    elif code == MODIFIED:
        annotations = state.mapping("message_annotations")
        if len(annotations) <= ANNOTATIONS_MAX:
            for key, value in annotations.items():
                if isinstance(key, Symbol) and key.text.startswith("x-"):
                    headers[key.text] = to_neutral(value)
    return AddedHeaders(formats, headers) if headers else None


def outcome_of(code: i64, state: object) -> Outcome:
    """Return the outcome of a delivery state, whose descriptor is `code`; released if it is none.

    `state` is None if the state has no fields.
    """
    if code == ACCEPTED:
        return Outcome.ACCEPTED
    if code == REJECTED:
        return Outcome.REJECTED
    if code == MODIFIED and isinstance(state, Composite):
        return modified(state.flag("delivery_failed"), state.flag("undeliverable_here"))
    return Outcome.RELEASED
