"""Dispositions with which we, as receiver, tell the outcomes of deliveries (section 2.7.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import i64

from penstock.flow.gate import retry_after_s
from penstock.flow.refusal import Refusal
from penstock.protocols.amqp10.error_scopes import DESCRIPTION_MAX
from penstock.wire.amqp10.composite import Composite, composite, decode_composite, encode_composite
from penstock.wire.amqp10.disposition import STATE_OCTETS_MAX, write_disposition
from penstock.wire.amqp10.spec import DISPOSITION, ERROR, REJECTED
from penstock.wire.amqp10.values import UINT, Symbol, Typed

if TYPE_CHECKING:
    from penstock.protocols.amqp10.session import AmqpSession


def write_outcome(session: AmqpSession, first: i64, last: i64, settled: bool, state: bytes) -> None:
    """Write the state of the peer's deliveries from `first` to `last`; nothing if the session has ended."""
    if not session.is_open():
        return
    if len(state) <= STATE_OCTETS_MAX:
        write_disposition(session.engine.out, session.number, True, first, last, settled, state)
        session.connection.request_flush()
    else:
        session.send(_large_disposition(first, last, settled, state))


def _large_disposition(first: i64, last: i64, settled: bool, state: bytes) -> Composite:
    """Return a disposition whose state has a reason."""
    return composite(
        DISPOSITION,
        role=True,
        first=int(first),
        last=int(last),
        settled=settled,
        state=decode_composite(state, 0, len(state))[0],
    )


def rejected_state(refusal: Refusal, now: float, condition: str = "") -> bytes:
    """Return the state of a refused delivery: `rejected`, with the reason, the gate and the time to wait for.

    `condition` is that of the error; by default it is the refusal's own.
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
