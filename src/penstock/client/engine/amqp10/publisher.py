"""Publisher of AMQP 1.0: a link that obeys credit."""

from __future__ import annotations

from typing import Final

from librt.strings import write_i32_be
from mypy_extensions import i32, i64

from penstock.client.engine.amqp10.addresses import address_of, capabilities_of, exchange_address_of, has_exchanges
from penstock.client.engine.amqp10.session import Link, Session, Sessions, TransactionalState
from penstock.client.engine.messages import Forwarded, Message
from penstock.client.engine.outcomes import CREDIT, Amounts, Blocked, amounts_of
from penstock.client.engine.publisher import PublisherCore
from penstock.client.engine.terms import PublisherTerms
from penstock.client.errors import LinkClosed, MessageTooLarge
from penstock.markers import override
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite
from penstock.wire.amqp10.field_cursor import ABSENT
from penstock.wire.amqp10.neutral_values import neutral_table
from penstock.wire.amqp10.neutral_writer import encode_head
from penstock.wire.amqp10.sections import durable_header
from penstock.wire.amqp10.transfer import (
    TRANSFER_OVERHEAD,
    Flow,
    delivery_head,
    write_continuation,
    write_delivery,
    write_delivery_head,
)
from penstock.wire.amqp10.values import ULONG, Symbol, Typed, serial_distance

EXACT_CREDIT: Final = "penstock:exact-credit"
"""Capability of a link whose credit ends at the stop threshold, so that every wait is for credit."""
TOO_LARGE: Final = "amqp:link:message-size-exceeded"
"""Condition of a link that ends because a message is too large (section 2.8.18)."""
_DATA8: Final = 0x005375A0
_DATA32: Final = 0x005375B0
"""Beginnings of a data section, with a size of one byte and of four bytes."""


class PublisherLink(Link):
    """Link of a publisher, as its session sees it."""

    def __init__(self, session: Session, name: str, publisher: Publisher10) -> None:
        super().__init__(session, name, False)
        self.owner = publisher

    @override
    def on_attach(self, attach: Composite) -> None:
        self.owner.on_attach(attach)

    @override
    def on_window(self) -> None:
        self.owner.review()

    @override
    def on_flow(self, flow: Flow) -> None:
        self.owner.on_flow(flow)

    @override
    def on_detach(self, code: str, text: str) -> None:
        self.owner.detached(code, text)


class Publisher10(PublisherCore):
    """Publisher with a link of its own."""

    def __init__(self, sessions: Sessions, terms: PublisherTerms) -> None:
        super().__init__(sessions.engine, terms)
        self.sessions = sessions
        self.name = terms.name or sessions.new_name("publisher")
        self.link: PublisherLink | None = None
        self.credit = 0
        self.sent: i64 = 0
        """Delivery-count of the link."""
        self.head: bytes = b""
        """Constant bytes of the link's transfers."""
        self.header: bytes = durable_header(terms.durable)
        """Header section of messages without own properties."""
        self.size_max: i64 = 0
        """Bytes of the largest message that the broker accepts; 0 for no limit."""
        self.is_exact: bool = False
        """True if the broker supports exact credit."""
        self.transaction: TransactionalState | None = None
        """Transactional state of the messages, in a transaction."""
        self.by_subject: bool = bool(terms.exchange) and not terms.key
        """True if the subject of each message is its routing key."""

    @property
    def address(self) -> str | None:
        """Return the address of the target; None for the anonymous terminus, where each message has its own target."""
        terms = self.terms
        if terms.exchange:
            return exchange_address_of(terms.exchange, terms.key or None, self.engine.server)
        return address_of(terms.key, self.engine.server) if terms.key else None

    @override
    def attach(self) -> None:
        """Attach the link."""
        if self.terms.exchange and not has_exchanges(self.engine.server):
            text = f"{self.engine.broker_name()} has no exchanges: name a queue or an address instead"
            self.end(LinkClosed(None, text), text)
            return
        session = self.sessions.session()
        link = self.link = PublisherLink(session, self.name, self)
        self.sent = 0
        self.credit = 0
        self.head = delivery_head(link.handle)
        address = self.address
        capabilities = [] if address is None else [EXACT_CREDIT]
        link.attach(
            snd_settle_mode=0,
            rcv_settle_mode=0,
            source=composite(spec.SOURCE, address=self.engine.terms.container),
            target=composite(spec.TARGET, address=address, capabilities=self._target_capabilities()),
            desired_capabilities=capabilities,
            properties=self._lane_properties(),
        )

    def _target_capabilities(self) -> list[str] | None:
        """Return the capabilities of the target: the capabilities of a queue, None for an exchange and the anonymous
        terminus.
        """
        terms = self.terms
        return None if terms.exchange or not terms.key else capabilities_of(terms.key)

    def _lane_properties(self) -> dict[object, object] | None:
        if self.lane is None or not self.engine.is_penstock():
            return None
        wanted = self.lane.request(self.terms.window)
        return {
            Symbol(f"penstock:{name}"): Typed(ULONG, value) if type(value) is int else value
            for name, value in wanted.items()
        }

    def on_attach(self, attach: Composite) -> None:
        """Handle the broker's attach."""
        if attach.inner("target") is None:
            return  # A detach with the error follows.
        self.size_max = max(attach.number("max_message_size", 0), 0)
        self.is_exact = EXACT_CREDIT in attach.texts("offered_capabilities")
        self.stopped_at = self.engine.now
        properties = neutral_table(attach.mapping("properties"))
        refused = properties.get("penstock:refused")
        if self.lane is None or "penstock:known" not in properties:
            self.go_on()
        else:
            numbers = [_whole(number) for number in refused] if isinstance(refused, list) else []
            self.go_on_from(properties["penstock:known"] is True, _whole(properties.get("penstock:taken")), numbers)
        if self.line and self.credit <= 0:
            self.ask_room()

    def on_flow(self, flow: Flow) -> None:
        """Handle credit, or the reason why there is none."""
        link = self.link
        if link is None:
            return
        if flow.link_credit != ABSENT:
            count = flow.delivery_count if flow.delivery_count != ABSENT else 0
            had = self.credit
            self.credit = serial_distance(self.sent & 0xFFFFFFFF, count + flow.link_credit & 0xFFFFFFFF)
            if self.credit <= 0 and had > 0:
                self.stopped_at = self.engine.now
            if self.credit > 0:
                self.info = None
        if flow.properties:
            self._note_blocked(link.session, flow.properties)
        self.note_blocked(self.credit <= 0 and self.info is not None)
        if flow.drain:
            self.sent += max(self.credit, 0)
            self.credit = 0
            link.session.write_flow(link, self.sent, 0, self._waiting(), True)
        elif flow.echo:
            self.ask_room()
        self.review()

    def _note_blocked(self, session: Session, properties: dict[object, object]) -> None:
        named = neutral_table(properties)
        by = named.get("penstock:blocked-by")
        if not isinstance(by, str):
            return
        since = named.get("penstock:since")
        if isinstance(since, float):
            self.stopped_at = self.engine.now - since
        queue = named.get("penstock:queue")
        after = named.get("penstock:retry-after")
        info = Blocked(
            CREDIT,
            f"{by} has no room",
            0.0,
            queue if isinstance(queue, str) else None,
            _amounts(named.get("penstock:depth")),
            _amounts(named.get("penstock:stop")),
            _amounts(named.get("penstock:resume")),
            _amounts(named.get("penstock:capacity")),
            after / 1000 if isinstance(after, int) else None,
        )
        latest = session.latest_info
        self.info = session.latest_info = latest if latest == info else info

    @override
    def frames_left(self) -> i64:
        link = self.link
        return 0 if link is None else link.session.window

    @override
    def ask_room(self) -> None:
        link = self.link
        if link is not None:
            link.session.write_flow(link, self.sent, max(self.credit, 0), self._waiting(), False)

    def _waiting(self) -> int:
        """Return how many messages wait for credit: calls with a place have not used their credit yet."""
        return len(self.line) + int(self.granted)

    @override
    def check_size(self, size: i64) -> None:
        if self.size_max > 0 and size > self.size_max:
            raise MessageTooLarge(
                f"a message of {size} bytes is larger than the {self.size_max} that the broker takes; it was not sent"
            )

    # Messages

    @override
    def write(self, body: bytes) -> None:
        self._put(self.header, body)

    @override
    def write_message(self, message: Message) -> None:
        if isinstance(message, Forwarded):
            self._write_forwarded(message)
            return
        properties = message.properties
        if message.delay is not None and not self.engine.delays:
            raise ValueError(f"a message with a delay: {self.engine.broker_name()} does not offer delayed delivery")
        if properties.delivery_mode is None:
            properties = properties.copy()
            properties.delivery_mode = 2 if self.terms.durable else 1
        self._put(encode_head(properties, self._place(message)), message.body)

    def _write_forwarded(self, message: Forwarded) -> None:
        """Write a received message: its sections as they came if it came over AMQP 1.0, and need not name a target."""
        place = self._place(message)
        protocol = self.engine.protocol
        content = None if place else message.content_for(protocol)
        head = None if place or content is not None else message.head_for(protocol)
        if content is not None:
            self._put_content(content)
        elif head is not None:
            self._put(head, message.body)
        else:
            self._put(encode_head(message.sent_by(self.engine.terms.user), place), message.body)

    def _place(self, message: Message) -> dict[str, object]:
        """Return the properties with a message's target. Raises `ValueError` if the link does not support it."""
        terms = self.terms
        exchange = terms.exchange if message.exchange is None else message.exchange
        key = terms.key if message.routing_key is None else message.routing_key
        if self.address is None:
            server = self.engine.server
            return {"to": exchange_address_of(exchange, key, server) if exchange else address_of(key, server)}
        if exchange != terms.exchange or (key != terms.key and not self.by_subject):
            raise ValueError(
                f"this publisher sends to {self.address}; over AMQP 1.0 a message with exchange '{exchange}' and "
                f"routing key '{key}' needs one without a queue, or with the exchange alone"
            )
        return {"subject": key} if self.by_subject else {}

    def _put(self, head: bytes, body: bytes) -> None:
        link = self.link
        assert link is not None
        session = link.session
        size: i64 = len(body)
        octets = len(head) + size + (5 if size < 256 else 8)
        number = session.sent(self, self._number())
        self.sent += 1
        if octets + TRANSFER_OVERHEAD > self.sessions.frame_max or self.transaction is not None:
            content = b"".join((head, b"\x00\x53\x75\xb0", len(body).to_bytes(4, "big"), body))
            self._put_frames(session, link, number, content)
            return
        out = self.engine.out
        session.window -= 1
        session.next_transfer += 1
        write_delivery_head(out, self.head, session.channel, number, self.sent, False, octets)
        if head:
            out.write(head)
        if size < 256:
            write_i32_be(out, _DATA8)
            out.append(int(size))
        else:
            write_i32_be(out, _DATA32)
            write_i32_be(out, i32(size))
        out.write(body)

    def _put_content(self, content: bytes) -> None:
        """Write a message whose body has no section of its own."""
        link = self.link
        assert link is not None
        number = link.session.sent(self, self._number())
        self.sent += 1
        self._put_frames(link.session, link, number, content)

    def _number(self) -> i64:
        """Return the number of the message that is being written."""
        if self.replay_at >= 0:
            return self.base + self.replay_at
        return self.base + len(self.pending)

    def _put_frames(self, session: Session, link: PublisherLink, number: i64, content: bytes) -> None:
        """Write a delivery of several frames, or within a transaction."""
        out = self.engine.out
        if self.transaction is not None:
            tag = int(self.sent).to_bytes(8, "big")
            fields = {"handle": link.handle, "delivery_id": int(number) & 0xFFFFFFFF, "delivery_tag": tag}
            self.transaction.write_delivery(session, fields, content)
            return
        step = self.sessions.frame_max - TRANSFER_OVERHEAD
        at: i64 = 0
        n: i64 = len(content)
        while at < n:
            size = min(step, n - at)
            more = at + size < n
            if at == 0:
                write_delivery(out, session.channel, link.handle, number & 0xFFFFFFFF, self.sent, False, more, size)
            else:
                write_continuation(out, session.channel, link.handle, more, size)
            out.write(content[at : at + size])
            session.window -= 1
            session.next_transfer += 1
            at += size

    # Ends

    def detached(self, code: str, text: str) -> None:
        """Handle the broker's detach, with its condition and description.

        A link that ends because of a message's size has not accepted that message. Other conditions leave this open.
        """
        if code == TOO_LARGE and self.unsettled_count == 1:
            error = MessageTooLarge(text)
            self.refuse_from(self.base, error, error, text)
        self.end(LinkClosed(code or None, text), text)

    @override
    def detach(self) -> None:
        link, self.link = self.link, None
        if link is not None:
            link.detach()

    @override
    def lose(self) -> None:
        self.link = None
        super().lose()


def _whole(value: object) -> int:
    """Return a number, or 0 for another value."""
    return value if isinstance(value, int) else 0


def _amounts(value: object) -> Amounts | None:
    """Return the amounts of a map in the properties of a flow."""
    return amounts_of(value) if isinstance(value, dict) else None
