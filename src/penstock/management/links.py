"""Links of protocols with credit: the search by name, and a sentence with the reason why a sender has no credit.

An incoming link is a producer whose sender has credit (`SenderCredit`), which also determines the reasons of a block.
An outgoing link is a consumer with the credit of its receiver.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mypy_extensions import i64

from penstock.connections.connection_names import own_name
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.publish.producer import Producer
from penstock.core.publish.sender_credit import SenderCredit
from penstock.describe.gate import because
from penstock.describe.session import links_of
from penstock.errors import NotFound, PreconditionFailed
from penstock.flow.credit import LinkCredit
from penstock.flow.level import amount
from penstock.management.node import Node

LINKS_NAMED: Final = 10
"""Most links in an error."""


class FoundLink(NamedTuple):
    """A link with its session: an incoming link has a producer, an outgoing link a consumer."""

    session: Session
    producer: Producer | None
    consumer: Consumer | None

    def name(self) -> str:
        """Return the link's full name, as in the log."""
        if self.producer is not None:
            return self.producer.name
        return self.session.name if self.consumer is None else f"{self.session.name}/{self.consumer.tag}"


def find_link(node: Node, name: str) -> FoundLink:
    """Find a link by its own name, or if several have that name by the full name in the log (session and link).

    Raises NotFound (404), and PreconditionFailed (406) for a name that several links have.
    """
    name = own_name(name, node.connections)
    links: list[FoundLink] = []
    for connection in node.connections.values():
        for session in connection.engine.sessions():
            for producer in links_of(session):
                if producer.name in (name, f"{session.name}/{name}"):
                    links.append(FoundLink(session, producer, None))
            for consumer in session.consumers.values():
                if isinstance(consumer.credit, LinkCredit) and name in (consumer.tag, f"{session.name}/{consumer.tag}"):
                    links.append(FoundLink(session, None, consumer))
    if not links:
        raise NotFound(f"no link '{name}'; `penstock channels list --json` has the links of all sessions")
    if len(links) > 1 and len({link.name() for link in links}) > 1:
        names = ", ".join(link.name() for link in links[:LINKS_NAMED])
        raise PreconditionFailed(f"{len(links):,} links have the name '{name}'; the first are {names}")
    return links[0]


def credit_sentence(producer: Producer, credit: SenderCredit, now: float) -> str:
    """Describe the credit of the sender of an incoming link, or the reason for missing credit."""
    gate = credit.blocked_by()
    if gate is not None:
        since = credit.blocked_since()
        lasting = "" if since is None else f" for {now - since:.1f} s"
        demand = f"; {_messages(credit.available)} more at its sender" if credit.available > 0 else ""
        return f"link {producer.name} has no credit{lasting} because of {because(producer, gate, now)}{demand}"
    if credit.credit == 0:
        turn, none = "; it gets some in its turn", " and has asked for none since its sender gave it back"
        return f"link {producer.name} has no credit{turn if credit.has_demand() else none}"
    reserved = amount(credit.reservation.messages)
    room = f"room for {reserved} of them is reserved in queues"
    if credit.hold.messages > 0:
        room += f", for {amount(credit.hold.messages)} in the hold room of its connection"
    if credit.hold.aside > 0:
        room += f"; {amount(credit.hold.aside)} are set aside: held if they find no room when they come"
    return f"link {producer.name} has credit for {_messages(credit.credit)}; {room}; its sender may send"


def _messages(count: i64) -> str:
    return "1 message" if count == 1 else f"{amount(count)} messages"
