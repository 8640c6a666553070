"""Credit of an incoming link in terms of AMQP 1.0: link properties that set it, and flow properties that explain it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.publish.credit_settings import CreditSettings
from penstock.core.publish.sender_credit import SenderCredit
from penstock.core.settings.limits import rates
from penstock.flow.gate import Gate
from penstock.flow.level import UNLIMITED
from penstock.setting_names import read_link_properties
from penstock.wire.amqp10.composite import Composite
from penstock.wire.amqp10.spec import UINT_MAX
from penstock.wire.amqp10.values import UINT, ULONG, Symbol, Typed

if TYPE_CHECKING:
    from penstock.protocols.amqp10.incoming_link import IncomingLink
    from penstock.protocols.amqp10.session import AmqpSession
    from penstock.protocols.amqp10.target import Target

MESSAGE_BYTES: Final = "penstock:message-bytes"
"""Link property: the octets that a message of credit is taken for until messages have come."""
BLOCKED_BY: Final = Symbol("penstock:blocked-by")
BLOCKED_SINCE: Final = Symbol("penstock:since")
RETRY_AFTER: Final = Symbol("penstock:retry-after")
"""Flow properties of a link whose credit has ended for want of room: the gate, seconds since then, milliseconds."""


class CreditRequest:
    """Request of an attach for the credit and rates of its sender. Raises PreconditionFailed for an invalid setting."""

    def __init__(self, session: AmqpSession, name: str, target: Target, attach: Composite) -> None:
        self.route = target.fixed_route()
        properties = link_properties(attach)
        words = read_link_properties(name, properties)
        self.settings = CreditSettings(session.broker.table, [] if self.route is None else self.route.queues, words)
        self.rates = rates(f"link '{name}'", words)
        """Rates of its own; None for none."""
        octets = properties.get(MESSAGE_BYTES)
        self.message_octets: i64 = min(octets, UINT_MAX) if isinstance(octets, int) and octets > 0 else 0
        """Octets of its messages; 0 if it does not say."""

    def credit(self, link: IncomingLink) -> SenderCredit:
        """Return the credit of the new link."""
        session, settings = link.session, self.settings
        window = settings.window(self.message_octets)
        found = SenderCredit(link.producer, session.vhost, self.route, window, session.connection.name())
        found.idle.idle_s = settings.idle_s
        return found


def link_properties(attach: Composite) -> dict[str, object]:
    """Return the properties of a link by their names, with plain values."""
    return plain_properties(attach.mapping("properties"))


def plain_properties(properties: dict[object, object]) -> dict[str, object]:
    """Return properties by their names, with plain values."""
    found: dict[str, object] = {}
    for key, value in properties.items():
        if isinstance(key, Symbol):
            found[key.text] = value.value if isinstance(value, Typed) else value
    return found


def window_properties(credit: SenderCredit) -> dict[object, object]:
    """Return the settings of a link's credit, and its rates, that are in force, as link properties."""
    window = credit.window
    found: dict[object, object] = {}
    if window.messages != UNLIMITED:
        found[Symbol("credit-window-messages")] = Typed(UINT, min(int(window.messages), UINT_MAX))
    if window.bytes != UNLIMITED:
        found[Symbol("credit-window-bytes")] = Typed(ULONG, int(window.bytes))
    rate = credit.producer.rate
    if rate is not None and rate.limits.rate_messages is not None:
        found[Symbol("rate-messages")] = rate.limits.rate_messages
    if rate is not None and rate.limits.rate_bytes is not None:
        found[Symbol("rate-bytes")] = rate.limits.rate_bytes
    return found


def blocked_properties(credit: SenderCredit, gate: Gate) -> dict[object, object]:
    """Return the flow properties that tell a sender which gate blocks it."""
    since = credit.blocked_since()
    return {
        BLOCKED_BY: f"{gate.kind} '{gate.name}'",
        BLOCKED_SINCE: 0.0 if since is None else round(credit.broker.now - since, 3),
        RETRY_AFTER: Typed(UINT, int(credit.retry_after_s() * 1000)),
    }
