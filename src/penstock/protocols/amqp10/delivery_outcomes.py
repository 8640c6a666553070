"""Outcomes that receivers ask for (section 3.4), and dispositions that send the broker's outcomes (section 2.7.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.consume.outcome import AddedHeaders, Outcome, modified
from penstock.core.message_format import MessageFormats
from penstock.flow.gate import Refusal, retry_after_s
from penstock.protocols.amqp10.error_scopes import DESCRIPTION_MAX
from penstock.wire.amqp10.composite import Composite, composite, decode_composite, encode_composite
from penstock.wire.amqp10.neutral_values import to_neutral
from penstock.wire.amqp10.spec import ACCEPTED, DISPOSITION, ERROR, MODIFIED, REJECTED
from penstock.wire.amqp10.transfer import STATE_OCTETS_MAX, write_disposition
from penstock.wire.amqp10.values import UINT, Symbol, Typed

if TYPE_CHECKING:
    from penstock.protocols.amqp10.session import AmqpSession

REJECTED_CONDITION: Final = "x-rejected-condition"
REJECTED_DESCRIPTION: Final = "x-rejected-description"
"""Annotations of a dead letter, headers in AMQP 0-9-1: the error with which its receiver rejected the message."""
REJECTED_NAME: Final = "amqp:rejected:list"
RELEASED_NAME: Final = "amqp:released:list"
"""Names of outcomes in the list of a source."""
ANNOTATIONS_MAX: Final = 32
"""Most annotations of one outcome; an outcome with more adds none."""
DESCRIPTION_LETTERS: Final = 255


def hears(attach: Composite, outcome: str) -> bool:
    """Return whether the source of a sender lists an outcome (section 3.5.3); an empty list stands for all."""
    source = attach.inner("source")
    outcomes = [] if source is None else source.texts("outcomes")
    return not outcomes or outcome in outcomes


def headers_of(code: i64, state: object, formats: MessageFormats) -> AddedHeaders | None:
    """Return the fields that a state adds to its messages: annotations of `modified`, or the error of `rejected`.

    Only annotations whose key begins with "x-" are added, as for dead letters. Return None if nothing is to be added.
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
    """Return the outcome of a delivery state with descriptor `code`; released if the state is no outcome.

    `state` is None if the state has no fields.
    """
    if code == ACCEPTED:
        return Outcome.ACCEPTED
    if code == REJECTED:
        return Outcome.REJECTED
    if code == MODIFIED and isinstance(state, Composite):
        return modified(state.flag("delivery_failed"), state.flag("undeliverable_here"))
    return Outcome.RELEASED


def write_outcome(session: AmqpSession, first: i64, last: i64, settled: bool, state: bytes) -> None:
    """Write the state of the peer's deliveries from `first` to `last`; nothing if the session has ended."""
    if not session.is_open():
        return
    if len(state) <= STATE_OCTETS_MAX:
        write_disposition(session.connection.output.buffer, session.number, True, first, last, settled, state)
        session.connection.request_flush()
    else:
        session.send(_large_disposition(first, last, settled, state))


def _large_disposition(first: i64, last: i64, settled: bool, state: bytes) -> Composite:
    """Return a disposition that is too long for the short encoding: its state has a reason."""
    return composite(
        DISPOSITION,
        role=True,
        first=int(first),
        last=int(last),
        settled=settled,
        state=decode_composite(state, 0, len(state))[0],
    )


def rejected_state(refusal: Refusal, now: float, condition: str = "") -> bytes:
    """Return the state of a refused delivery: `rejected`, with the reason, the gate and the time to wait.

    `condition` is the condition of the error; by default the refusal's own.
    """
    info: dict[object, object] = {Symbol("reason"): refusal.cause}
    gate = refusal.gate
    if gate is not None:
        info[Symbol("gate")] = f"{gate.kind} '{gate.name}'"
    if refusal.retriable:
        info[Symbol("retry-after")] = Typed(UINT, int(retry_after_s(gate, now) * 1000))
    if not condition:
        condition = "amqp:resource-limit-exceeded" if refusal.error is None else refusal.error.condition
    reason = refusal.describe().encode()[:DESCRIPTION_MAX].decode(errors="ignore")
    return encode_composite(
        composite(REJECTED, error=composite(ERROR, condition=condition, description=reason, info=info))
    )
