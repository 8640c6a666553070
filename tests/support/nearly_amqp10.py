"""Conversations that are nearly AMQP 1.0: made of the tables of the specification, and then spoilt here and there.

Everything follows from a seed. Names come from small pools, so that what one input makes the next one finds.
"""

from __future__ import annotations

from typing import Final

from penstock.wire.amqp091.spec import PROTOCOL_HEADER
from penstock.wire.amqp10 import spec, values
from penstock.wire.amqp10.composite import Composite, decode_performative
from penstock.wire.amqp10.frames import AMQP_HEADER, HEADER_OCTETS, SASL_HEADER, frame
from penstock.wire.amqp10.neutral_addresses import exchange_address, queue_address
from penstock.wire.amqp10.spec import ANY, COMPOSITES, MESSAGE_ID, ROLE, FieldSpec
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Array, Described, Symbol, Typed, ulong
from penstock.wire.sasl import plain_response
from tests.support.frame_splitter import FrameSplitter
from tests.support.nearly_amqp import Octets

QUEUES: Final = ("q0", "q1", "q2", "q3")
NODES: Final = (
    *[queue_address(name) for name in QUEUES] * 4, *QUEUES, exchange_address("e0", "a.b"), exchange_address("e0"),
    exchange_address("e1"), "amq.fanout", "e0/a.b", "/exchanges/amq.topic/a.b", "/exchanges/penstock.control/status",
)  # fmt: skip
OTHERS: Final = ("/queues/none", "/queues/%zz", "/queue/q0", "/management", "none", "", "x" * 300)
"""Addresses that name nothing, or cannot be read."""
TEXTS: Final = ("", "a.b", "q0", "s0", "r1", "é", "x" * 300)
SYMBOLS: Final = (
    "queue", "topic", "amqp:accepted:list", "amqp:released:list", "never", "session-end", "link-detach", "copy", "x-a",
    "apache.org:selector-filter:string", "penstock:message-bytes", "PLAIN", "ANONYMOUS-RELAY", "x-opt-deaths",
)  # fmt: skip
NUMBERS: Final = (0, 0, 1, 1, 2, 3, 5, 10, 100, 1000, 65535, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
WIDTHS: Final = {**values.UNSIGNED, **values.SIGNED}
PERFORMATIVES: Final = (
    spec.OPEN, spec.BEGIN, *[spec.ATTACH] * 6, *[spec.FLOW] * 6, *[spec.TRANSFER] * 6, *[spec.DISPOSITION] * 6,
    *[spec.DETACH] * 3, spec.END, spec.CLOSE, spec.SASL_INIT, spec.ERROR, spec.SOURCE,
)  # fmt: skip
SELECTORS: Final = ("a > 1", "q0 = 'x' OR a.b IS NULL", "JMSPriority BETWEEN 1 AND 5", "a LIKE 'x%'", "(", "1")
FILTERS: Final = (
    ("apache.org:selector-filter:string", SELECTORS), ("apache.org:no-local-filter:list", ([],)),
    ("apache.org:legacy-amqp-topic-binding:string", ("a.*", "#")), ("unknown", ("x",)),
)  # fmt: skip
COORDINATOR: Final = "coordinator"
"""Role of a link to the coordinator of transactions."""
WINDOW: Final = 1 << 16
ROLES: Final = (*["sender"] * 8, *["receiver"] * 5, COORDINATOR)


class Amqp10Octets:
    """A source of performatives and messages."""

    def __init__(self, octets: Octets) -> None:
        self.octets = octets
        self.chance = octets.chance
        self.one_in = octets.one_in

    def scalar(self, kind: str) -> object:
        """A value of a primitive type, as the codec writes it outside of composites."""
        chance = self.chance
        if kind == values.STRING:
            return chance.choice(TEXTS)
        if kind == values.SYMBOL:
            return Symbol(chance.choice(SYMBOLS))
        if kind == values.BINARY:
            return chance.choice((b"", b"guest", b"x" * 40, chance.randbytes(4)))
        if kind == values.BOOLEAN:
            return self.one_in(2)
        if kind == values.MAP:
            return {Symbol(chance.choice(SYMBOLS)): self.anything() for _ in range(chance.randrange(3))}
        if kind in WIDTHS:
            number = chance.choice(NUMBERS) & ((1 << (8 * WIDTHS[kind] - (kind in values.SIGNED))) - 1)
            return number if kind in values.PLAIN else Typed(kind, number)
        return Typed(values.UUID, chance.randbytes(16)) if kind == values.UUID else None

    def address(self) -> str:
        return self.chance.choice(OTHERS if self.one_in(12) else NODES)

    def anything(self, depth: int = 0) -> object:
        draw = self.chance.randrange(12 if depth < 3 else 8)
        if draw == 8:
            return [self.anything(depth + 1) for _ in range(self.chance.randrange(3))]
        if draw == 9:
            return {self.chance.choice(TEXTS[:5]): self.anything(depth + 1) for _ in range(self.chance.randrange(3))}
        if draw == 10:
            return Array(values.STRING, [self.chance.choice(TEXTS)])
        if draw == 11:
            return Described(self.chance.choice((ulong(0x24), Symbol("apache.org:x"))), self.anything(depth + 1))
        kinds = (values.STRING, values.SYMBOL, values.BINARY, values.BOOLEAN, values.UINT, values.LONG, values.UUID, "")
        return self.scalar(kinds[draw])

    def field(self, field: FieldSpec) -> object:
        """A value of a field, now and then of a wrong type."""
        chance = self.chance
        if self.one_in(600):
            return self.anything()
        if field.multiple:
            return Array(values.SYMBOL, [chance.choice(SYMBOLS) for _ in range(chance.randrange(3))])
        if field.kind == ROLE:
            provided = [code for code, each in COMPOSITES.items() if field.role in each.provides]
            return self.composite(chance.choice(provided))
        if field.kind == ANY:
            return self.anything()
        if field.kind == MESSAGE_ID:
            return self.scalar(chance.choice((values.STRING, values.ULONG, values.UUID, values.BINARY)))
        if field.domain == "address":
            return self.address()
        if field.choices:
            return Symbol(chance.choice(field.choices))
        if field.largest >= 0 and field.kind in WIDTHS:
            return Typed(field.kind, chance.randrange(field.largest + 1))
        return self.scalar(field.kind)

    def composite(self, code: int, **given: object) -> Described:
        """A composite with these fields, all that are mandatory, and some others."""
        found: list[object] = []
        for field in COMPOSITES[code].fields:
            if field.name in given:
                found.append(given[field.name])
            elif (field.mandatory and not self.one_in(1000)) or self.one_in(6):
                found.append(self.field(field))
            else:
                found.append(None)
        if self.one_in(1000):
            found.append(self.anything())
        return Described(ulong(code), found)

    def performative(self, channel: int, code: int, payload: bytes = b"", **given: object) -> bytes:
        return frame(channel, encode_value(self.composite(code, **given)) + payload)

    def filter_set(self) -> object:
        """A filter of a source, described as its name says."""
        name, choices = self.chance.choice(FILTERS)
        return {Symbol(name): Described(Symbol(name), self.chance.choice(choices))}

    def message(self) -> bytes:
        """A message, whose sections are in their order most of the time."""
        chance = self.chance
        found: list[bytes] = []
        if self.one_in(3):
            found.append(
                encode_value(self.composite(spec.HEADER, ttl=Typed(values.UINT, chance.choice((1, 500, 10**6)))))
            )
        for code in (spec.DELIVERY_ANNOTATIONS, spec.MESSAGE_ANNOTATIONS):
            if self.one_in(5):
                found.append(self.section(code, self.scalar(values.MAP)))
        if self.one_in(2):
            user = None if not self.one_in(20) else self.scalar(values.BINARY)
            found.append(encode_value(self.composite(spec.PROPERTIES, user_id=user, to=self.address())))
        if self.one_in(4):
            entries = {chance.choice(TEXTS): self.anything(3) for _ in range(chance.randrange(4))}
            found.append(self.section(spec.APPLICATION_PROPERTIES, entries))
        if self.one_in(6):
            found.append(self.section(spec.AMQP_VALUE, self.anything()))
        elif self.one_in(8):
            found.append(self.section(spec.AMQP_SEQUENCE, [self.anything()]))
        else:
            size = chance.choice((0, 1, 100, 100, 5000))
            found += [self.section(spec.DATA, b"x" * size)] * chance.choice((1, 1, 1, 2))
        if self.one_in(20):
            chance.shuffle(found)
        return self.octets.spoilt(b"".join(found))

    def section(self, code: int, value: object) -> bytes:
        return encode_value(Described(ulong(code), value))


class Conversation:
    """A session of a client: what it has attached, and what it has to settle."""

    def __init__(self) -> None:
        self.next_id = 0
        self.links: dict[int, str] = {}
        """Roles of its links by handle."""
        self.modes: dict[int, int] = {}
        """Values of snd-settle-mode."""
        self.begun_delivery = -1
        """Handle of a link with a delivery that has more frames; -1 for none."""
        self.rest = b""
        """The octets of that delivery which are still to come."""
        self.unsettled: list[int] = []
        self.transactions: list[bytes] = []
        """Identifiers of declared transactions."""
        self.is_open = False
        self.ends = False


class Amqp10Client:
    """What one client of AMQP 1.0 says, and how it understands what it hears. It knows nothing of sockets."""

    def __init__(self, octets: Octets) -> None:
        self.source = Amqp10Octets(octets)
        self.octets = octets
        self.sessions = {channel: Conversation() for channel in range(3)}
        self.answers: list[bytes] = []
        self.closed = False
        self._headers = [SASL_HEADER, AMQP_HEADER]
        self._splitter = FrameSplitter(1 << 20)
        self.greeting = self._hello()

    def _hello(self) -> bytes:
        init = self.source.composite(
            spec.SASL_INIT, mechanism=Symbol("PLAIN"), initial_response=plain_response("guest", "guest"), hostname=None
        )
        size = self.octets.chance.choice((512, 4096, 2**32 - 1))
        opening = self.source.performative(
            0, spec.OPEN, container_id="c", hostname=None, max_frame_size=Typed(values.UINT, size), channel_max=None,
            idle_time_out=None, outgoing_locales=None, incoming_locales=None, properties=None,
        )  # fmt: skip
        return SASL_HEADER + frame(0, encode_value(init), spec.FRAME_SASL) + AMQP_HEADER + opening

    # What it says

    def something(self) -> bytes:
        """One thing that a client may say."""
        channel = self.octets.chance.randrange(3) if not self.octets.one_in(2000) else 65535
        session = self.sessions.get(channel, self.sessions[0])
        if not session.is_open and not self.octets.one_in(200):
            session.is_open = True
            window = Typed(values.UINT, self.octets.chance.choice((WINDOW, WINDOW, WINDOW, 1, 0)))
            ids = Typed(values.UINT, session.next_id)
            return self.source.performative(
                channel, spec.BEGIN, remote_channel=None, next_outgoing_id=ids, incoming_window=window,
                outgoing_window=Typed(values.UINT, WINDOW), handle_max=None,
            )  # fmt: skip
        draw = self.octets.chance.randrange(100)
        if draw < 45:
            return self._transfer(channel, session)
        if draw < 60:
            return self._settle(channel, session)
        if draw < 75:
            return self._flow(channel, session)
        if draw < 90:
            return self._attach(channel, session)
        if draw < 94:
            return self._detach(channel, session)
        if draw < 95:
            session.ends = True
            return self.source.performative(channel, spec.END)
        if draw < 97 or not self.octets.one_in(3):
            return frame(channel)
        if self.octets.one_in(2):
            return self.source.performative(channel, self.octets.chance.choice(PERFORMATIVES))
        return self.octets.chance.randbytes(self.octets.chance.randrange(1, 60))

    def _handle(self, session: Conversation, role: str) -> int:
        """A handle of a link in this role; seldom any."""
        found = [handle for handle, each in session.links.items() if each == role]
        return self.octets.chance.choice(found) if found and not self.octets.one_in(100) else -1

    def _attach(self, channel: int, session: Conversation, role: str = "") -> bytes:
        handle = self.octets.chance.randrange(6)
        if handle in session.links and not self.octets.one_in(100):
            return self._flow(channel, session)
        role = role or self.octets.chance.choice(ROLES)
        chance = self.octets.chance
        session.links[handle] = role
        session.modes[handle] = mode = chance.choice((0, 0, 1, 2))
        address = self.source.address() if not self.octets.one_in(12) else None
        given: dict[str, object] = {"source": self.source.composite(spec.SOURCE), "target": None}
        dynamic = self.octets.one_in(20) or None
        if role == COORDINATOR:
            given["target"] = self.source.composite(spec.COORDINATOR)
        elif role == "sender":
            given["target"] = self.source.composite(spec.TARGET, address=None if dynamic else address, dynamic=dynamic)
        else:
            found = self.source.filter_set() if self.octets.one_in(3) else None
            given["source"] = self.source.composite(
                spec.SOURCE, address=None if dynamic else address, dynamic=dynamic, filter=found
            )
        return self.source.performative(
            channel, spec.ATTACH, name=f"{role[0]}{handle}", handle=Typed(values.UINT, handle), role=role == "receiver",
            snd_settle_mode=Typed(values.UBYTE, mode),
            initial_delivery_count=Typed(values.UINT, chance.choice((0, 0, 2**32 - 2))), **given,
        )  # fmt: skip

    def _transfer(self, channel: int, session: Conversation) -> bytes:
        begun = session.begun_delivery
        role = COORDINATOR if self.octets.one_in(8) else "sender"
        handle = begun if begun in session.links else self._handle(session, role)
        if handle < 0:
            return self._attach(channel, session, role)
        first = session.begun_delivery != handle
        more = self.octets.one_in(8)
        session.begun_delivery = handle if more else -1
        given: dict[str, object] = {"delivery_id": None, "delivery_tag": None, "state": None}
        if first:
            given |= {
                "delivery_id": Typed(values.UINT, session.next_id & 0xFFFFFFFF),
                "delivery_tag": b"%d" % session.next_id,
            }
            session.next_id += 1
        mode = session.modes.get(handle, 2)
        settled = mode == 1 if mode < 2 and not self.octets.one_in(100) else self.octets.one_in(2)
        content = self.source.message()
        if not first and not self.octets.one_in(5):
            content = session.rest
        if session.links[handle] == COORDINATOR and not self.octets.one_in(20):
            content = self._request(session)
            settled = False
        elif session.transactions and self.octets.one_in(2):
            given["state"] = self._in_transaction(session)
        if more:
            content, session.rest = content[: len(content) // 2], content[len(content) // 2 :]
        return self.source.performative(
            channel, spec.TRANSFER, content, handle=Typed(values.UINT, handle), message_format=None,
            settled=settled, rcv_settle_mode=None, more=more or None, aborted=self.octets.one_in(40) or None, **given,
        )  # fmt: skip

    def _request(self, session: Conversation) -> bytes:
        """A message to the coordinator: a transaction begins or ends."""
        if session.transactions and self.octets.one_in(2):
            found = self.source.composite(spec.DISCHARGE, txn_id=self._transaction(session), fail=self.octets.one_in(2))
        else:
            found = self.source.composite(spec.DECLARE, global_id=None)
        return self.source.section(spec.AMQP_VALUE, found)

    def _transaction(self, session: Conversation) -> bytes:
        found = session.transactions
        return self.octets.chance.choice(found) if found and not self.octets.one_in(30) else b"none"

    def _in_transaction(self, session: Conversation) -> object:
        """A delivery state with a transaction."""
        outcome = self.source.composite(self.octets.chance.choice((spec.ACCEPTED, spec.RELEASED, spec.MODIFIED)))
        return self.source.composite(
            spec.TRANSACTIONAL_STATE,
            txn_id=self._transaction(session),
            outcome=outcome if self.octets.one_in(2) else None,
        )

    def _flow(self, channel: int, session: Conversation) -> bytes:
        given: dict[str, object] = {"handle": None, "next_incoming_id": None, "delivery_count": None}
        role = self.octets.chance.choice(ROLES)
        handle = self._handle(session, role)
        if handle >= 0:
            given["handle"] = Typed(values.UINT, handle)
            if role == "receiver":
                given["link_credit"] = Typed(values.UINT, self.octets.chance.choice((0, 1, 5, 100, 2**32 - 1)))
                given["drain"] = self.octets.one_in(5) or None
            else:
                given["delivery_count"] = Typed(values.UINT, self.octets.chance.choice((0, 0, 5, 2**32 - 1)))
        return self.source.performative(
            channel, spec.FLOW, incoming_window=Typed(values.UINT, WINDOW), outgoing_window=Typed(values.UINT, WINDOW),
            next_outgoing_id=Typed(values.UINT, session.next_id & 0xFFFFFFFF), **given,
        )  # fmt: skip

    def _settle(self, channel: int, session: Conversation) -> bytes:
        if not session.unsettled:
            return self._flow(channel, session)
        first = session.unsettled.pop(self.octets.chance.randrange(len(session.unsettled)))
        last = first + self.octets.chance.choice((0, 0, 0, 1, 5))
        given = {"state": self._in_transaction(session)} if session.transactions and self.octets.one_in(2) else {}
        return self.source.performative(
            channel, spec.DISPOSITION, role=not self.octets.one_in(20), first=Typed(values.UINT, first),
            last=Typed(values.UINT, last & 0xFFFFFFFF), **given,
        )  # fmt: skip

    def _detach(self, channel: int, session: Conversation) -> bytes:
        if not session.links:
            return frame(channel)
        handle = self.octets.chance.choice(list(session.links))
        del session.links[handle]
        return self.source.performative(channel, spec.DETACH, handle=Typed(values.UINT, handle), error=None)

    # What it hears

    def hear(self, data: bytes) -> None:
        """Read what the broker has written: headers, then whole frames of performatives that are valid."""
        while self._headers and data:
            data = self._splitter.unparsed + data
            if data[:4] != b"AMQP":
                break
            if data == PROTOCOL_HEADER:
                return  # Our own header was spoilt: this is the one of the first protocol.
            assert data[:HEADER_OCTETS] in self._headers, data[:HEADER_OCTETS]
            if data[:HEADER_OCTETS] == AMQP_HEADER:
                self._headers = []
            self._splitter.unparsed = b""
            data = data[HEADER_OCTETS:]
            if self._headers:
                data = self._sasl(data)
        for each in self._splitter.feed(data):
            if each.body and each.kind == spec.FRAME_AMQP:
                self._on(each.channel, decode_performative(each.body)[0])

    def _sasl(self, data: bytes) -> bytes:
        """Read the frames up to the AMQP header."""
        while len(data) >= HEADER_OCTETS and data[:4] != b"AMQP":
            size = int.from_bytes(data[:4], "big")
            if size > len(data):
                break
            decode_performative(data[HEADER_OCTETS:size])
            data = data[size:]
        return data

    def _on(self, channel: int, heard: Composite) -> None:
        if heard.code == spec.CLOSE:
            self.closed = True
            self.answers.append(frame(0, encode_value(Described(ulong(spec.CLOSE), []))))
            return
        session = self.sessions.get(channel)
        if session is None or heard.code == spec.OPEN:
            return
        if heard.code == spec.END:
            if not session.ends:
                self.answers.append(frame(channel, encode_value(Described(ulong(spec.END), []))))
            self.sessions[channel] = Conversation()
        elif heard.code == spec.TRANSFER and heard.fields["delivery_id"] is not None and not heard.flag("settled"):
            session.unsettled = [*session.unsettled[-50:], heard.number("delivery_id")]
        elif heard.code == spec.DISPOSITION:
            state = heard.inner("state")
            if state is not None and state.code == spec.DECLARED:
                session.transactions = [*session.transactions[-5:], state.octets("txn_id")]
        elif heard.code == spec.DETACH:
            handle = heard.number("handle")
            if session.links.pop(handle, ""):
                answer = Described(ulong(spec.DETACH), [Typed(values.UINT, handle), True])
                self.answers.append(frame(channel, encode_value(answer)))
