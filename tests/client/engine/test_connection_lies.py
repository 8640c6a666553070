"""Engines at a server that breaks the protocol in each state: they raise `ClientError` only, and each wait ends."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from penstock.client.engine.amqp091.connection import Engine091
from penstock.client.engine.amqp091.transaction import Transaction091
from penstock.client.engine.amqp10.connection import Engine10
from penstock.client.engine.amqp10.session import Link
from penstock.client.engine.amqp10.transaction import Transaction10
from penstock.client.engine.connection import ENDED, Engine
from penstock.client.engine.receiver import ReceiverCore
from penstock.client.engine.terms import PublisherTerms, ReceiverTerms
from penstock.client.errors import ClientError, ConnectionClosed
from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame
from penstock.wire.amqp091.content_header import encode_header
from penstock.wire.amqp10 import spec as spec10
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.frames import AMQP_HEADER, SASL_HEADER
from penstock.wire.amqp10.frames import frame as frame10
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, uint, ulong
from tests.client.engine.dialogues import (
    OTHER,
    TERMS,
    begin,
    mechanisms,
    method,
    opened_091,
    opened_10,
    outcome,
    performative,
    released,
    said,
    start,
)
from tests.profiles import thorough

PENSTOCK: dict[str, object] = {
    "product": "Penstock",
    "capabilities": {"penstock.producer-lanes": True, "penstock.exact-flow": True},
}
ROUNDS = 3000 if thorough() else 150
"""Lies of chance in each state."""


class Calls:
    """Calls of a program that wait, as a shell drives them; what they raise is a `ClientError`."""

    def __init__(self, engine: Engine, *steps: Iterator[Any]) -> None:
        self.engine = engine
        self.open: list[tuple[Any, Any]] = []
        for each in steps:
            self._go_on(each)

    def _go_on(self, steps: Any) -> None:
        try:
            self.open.append((steps, next(steps)))
        except StopIteration:
            pass
        except ClientError:
            pass

    def turn(self) -> None:
        """Continue the calls whose waits are done."""
        going, self.open = self.open, []
        for steps, wait in going:
            if wait.done:
                self._go_on(steps)
            else:
                self.open.append((steps, wait))


def reading(receiver: ReceiverCore) -> Iterator[Any]:
    """Receive messages, look at all of each, and settle them in turn."""
    number = 0
    while True:
        message = yield from receiver.receiving()
        if message is None:
            return
        for name in ("properties", "headers", "exchange", "routing_key", "redelivered"):
            with suppress(ClientError):
                getattr(message, name)
        number += 1
        (message.accept, message.reject, message.modify, message.release)[number % 4]()


Made = tuple[Engine, Calls]
State = Callable[[], Made]


def fresh_091() -> Made:
    engine = Engine091(TERMS)
    engine.begin(0.0)
    return engine, Calls(engine)


def started_091() -> Made:
    engine, calls = fresh_091()
    said(engine, start(PENSTOCK))
    return engine, calls


def tuned_091() -> Made:
    engine, calls = started_091()
    said(engine, method(0, spec.CONNECTION_TUNE, channel_max=0, frame_max=0, heartbeat=0))
    return engine, calls


def idle_091() -> Made:
    engine = opened_091(PENSTOCK)
    return engine, Calls(engine)


def attaching_091() -> Made:
    engine = opened_091(PENSTOCK)
    publisher, receiver = engine.publisher(PublisherTerms(key="q")), engine.receiver(ReceiverTerms(queue="q"))
    released(engine)
    return engine, Calls(engine, publisher.sending(b"x"), reading(receiver))


def busy_091() -> Made:
    engine = opened_091(OTHER)
    publisher, receiver = engine.publisher(PublisherTerms(key="q")), engine.receiver(ReceiverTerms(queue="q"))
    said(engine, method(1, spec.CHANNEL_OPEN_OK) + method(1, spec.CONFIRM_SELECT_OK))
    said(engine, method(2, spec.CHANNEL_OPEN_OK) + method(2, spec.BASIC_QOS_OK) + method(2, spec.BASIC_CONSUME_OK))
    return engine, Calls(engine, publisher.sending(b"x"), publisher.sending(b"y"), reading(receiver))


def asking_091() -> Made:
    engine = opened_091(PENSTOCK)
    calls = Calls(
        engine,
        engine.calling("queue.declare", {"queue": "q", "arguments": {}}),
        engine.requesting("why", {"queue": "q"}),
        engine.services.requester(engine, "", "q").calling(b"question"),
        engine.receiver(ReceiverTerms(queue="q", window_bytes=0)).getting(),
    )
    released(engine)
    return engine, calls


def transacting_091() -> Made:
    engine = opened_091(OTHER)
    transaction = Transaction091(engine.channels, 5.0)
    calls = Calls(engine, transaction.beginning())
    released(engine)
    said(engine, method(1, spec.CHANNEL_OPEN_OK) + method(1, spec.TX_SELECT_OK))
    calls.turn()
    publisher = transaction.publisher(PublisherTerms(key="q"))
    receiver = transaction.receiver(ReceiverTerms(queue="q"))
    calls = Calls(engine, publisher.sending(b"x"), transaction.committing(), reading(receiver))
    return engine, calls


def closing_091() -> Made:
    engine, calls = busy_091()
    calls._go_on(engine.closing(1.0))
    released(engine)
    return engine, calls


def fresh_10() -> Made:
    engine = Engine10(TERMS)
    engine.begin(0.0)
    return engine, Calls(engine)


def offered_10() -> Made:
    engine, calls = fresh_10()
    said(engine, mechanisms("PLAIN"))
    return engine, calls


def scram_10() -> Made:
    engine = Engine10(TERMS._replace(mechanism="SCRAM-SHA-256", nonce="n"))
    engine.begin(0.0)
    said(engine, mechanisms("SCRAM-SHA-256"))
    return engine, Calls(engine)


def logged_in_10() -> Made:
    engine, calls = offered_10()
    said(engine, outcome() + AMQP_HEADER)
    return engine, calls


def idle_10() -> Made:
    engine = opened_10(PENSTOCK)
    return engine, Calls(engine)


def attaching_10() -> Made:
    engine = opened_10(PENSTOCK)
    publisher, receiver = engine.publisher(PublisherTerms(key="q")), engine.receiver(ReceiverTerms(queue="q"))
    released(engine)
    begin(engine)
    return engine, Calls(engine, publisher.sending(b"x"), reading(receiver))


def busy_10() -> Made:
    engine, calls = attaching_10()
    ends = {"source": composite(spec10.SOURCE, address="a"), "target": composite(spec10.TARGET, address="a")}
    said(engine, performative(spec10.ATTACH, name="publisher-1", handle=0, role=True, **ends))
    said(engine, performative(spec10.ATTACH, name="receiver-2", handle=1, role=False, initial_delivery_count=0, **ends))
    said(engine, performative(spec10.FLOW, handle=0, delivery_count=0, link_credit=10, **WINDOWS))
    calls.turn()
    return engine, calls


def asking_10() -> Made:
    engine = opened_10(PENSTOCK)
    calls = Calls(
        engine,
        engine.calling("queue.declare", {"queue": "q", "arguments": {}}),
        engine.requesting("why", {"queue": "q"}),
        engine.services.requester(engine, "", "q").calling(b"question"),
    )
    released(engine)
    begin(engine)
    return engine, calls


def transacting_10() -> Made:
    engine = opened_10(OTHER)
    transaction = Transaction10(engine.sessions, 5.0)
    calls = Calls(engine, transaction.beginning())
    released(engine)
    begin(engine)
    return engine, calls


def closing_10() -> Made:
    engine, calls = busy_10()
    calls._go_on(engine.closing(1.0))
    released(engine)
    return engine, calls


STATES_091: dict[str, State] = {
    "fresh": fresh_091,
    "started": started_091,
    "tuned": tuned_091,
    "idle": idle_091,
    "attaching": attaching_091,
    "busy": busy_091,
    "asking": asking_091,
    "transacting": transacting_091,
    "closing": closing_091,
}
STATES_10: dict[str, State] = {
    "fresh": fresh_10,
    "offered": offered_10,
    "scram": scram_10,
    "logged in": logged_in_10,
    "idle": idle_10,
    "attaching": attaching_10,
    "busy": busy_10,
    "asking": asking_10,
    "transacting": transacting_10,
    "closing": closing_10,
}
"""Engines in each state of a connection, by name."""


def end(made: Made) -> None:
    """Check what came of a lie, and let the connection end: each call ends too."""
    engine, calls = made
    released(engine)
    calls.turn()
    assert engine.fault is None or isinstance(engine.fault, ClientError)
    engine.tick(engine.now + 0.01)
    released(engine)
    calls.turn()
    engine.lose(engine.fault or ConnectionClosed(None, "the end"), False, engine.now)
    released(engine)
    calls.turn()
    assert engine.phase == ENDED
    assert not calls.open


def hear(made: Made, octets: bytes) -> None:
    """Let an engine take octets, and its calls go on."""
    engine, calls = made
    engine.receive(octets, engine.now)
    released(engine)
    calls.turn()


def lie(made: Made, octets: bytes) -> None:
    """Let an engine take octets, and then its end."""
    hear(made, octets)
    end(made)


# AMQP 0-9-1

METHODS = sorted(spec.METHODS)


@pytest.mark.parametrize("state", STATES_091)
def test_method_in_each_state_raises_client_errors_only(state: str) -> None:
    for channel in range(5):
        for code in METHODS:
            lie(STATES_091[state](), method(channel, code))


def value(chance: random.Random, depth: int = 0) -> Any:
    """Return a value of chance, as a table or a list of AMQP has."""
    kinds: list[Callable[[], Any]] = [
        lambda: None,
        lambda: chance.random() < 0.5,
        lambda: chance.randrange(-3, 300),
        lambda: chance.randrange(-(1 << 63), 1 << 63),
        lambda: chance.random(),
        lambda: chance.choice(["", "q", "known", "taken", "publisher-1", "1.1", "amqp:accepted:list", "x" * 200]),
        lambda: chance.randbytes(chance.randrange(20)),
    ]
    if depth < 3:
        kinds += [
            lambda: [value(chance, depth + 1) for _ in range(chance.randrange(4))],
            lambda: {chance.choice("abc"): value(chance, depth + 1) for _ in range(chance.randrange(4))},
        ]
    return chance.choice(kinds)()


def argument(chance: random.Random, kind: str) -> Any:
    """Return a value of chance for a field of a method."""
    if kind == "bit":
        return chance.random() < 0.5
    if kind in ("octet", "short", "long", "longlong"):
        size = {"octet": 8, "short": 16, "long": 32, "longlong": 64}[kind]
        return chance.choice([0, 1, 2, 3, 10, 200, 311, 312, 403, 404, 541, (1 << size) - 1]) % (1 << size)
    if kind == "table":
        return {chance.choice("abc"): value(chance) for _ in range(chance.randrange(3))}
    text = chance.choice(["", "q", "receiver-1", "amq.rabbitmq.reply-to", "NOT_FOUND - no", "1.1", "x" * 255])
    return text.encode() if kind == "longstr" else text


def method_of_chance(chance: random.Random) -> bytes:
    code = chance.choice(METHODS)
    fields = {name: argument(chance, kind) for name, kind in spec.METHODS[code].fields}
    return method(chance.randrange(5), code, **fields)


ANSWERS = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"7",
    b'"text"',
    b"{}",
    b'{"known": true}',
    b'{"known": true, "taken": "many", "refused": 7}',
    b'{"known": true, "taken": 1e400, "refused": [null]}',
    b'{"known": true, "taken": 99999999999999999999, "refused": [99999999999999999999]}',
    b'{"code": "x"}',
    b'{"taken": {}}',
    b'{"gate": [], "sentences": [7], "queue": {}}',
    b"[" * 100_000,
    b"\xff\xfe",
]
KINDS = [
    "application/json",
    "application/vnd.penstock.error+json",
    "application/vnd.penstock.progress+json",
    "application/vnd.penstock.block",
    "text/plain",
    None,
]


def content_of_chance(chance: random.Random, number: int = 1) -> bytes:
    """Return a delivery, a return or the answer to basic.get, with content; perhaps with a part too few."""
    properties = Properties(
        correlation_id=chance.choice([None, "1.1", "1.2", "1.3"]),
        content_type=chance.choice(KINDS),
        headers=chance.choice([None, {"h": value(chance)}]),
    )
    body = chance.choice(ANSWERS)
    code = chance.choice([spec.BASIC_DELIVER, spec.BASIC_RETURN, spec.BASIC_GET_OK])
    fields = {name: argument(chance, kind) for name, kind in spec.METHODS[code].fields}
    size = len(body) + chance.choice([*[0] * 9, -1, 1, 1 << 40])
    head = encode_header(max(size, 0), properties)
    heads = [*[head] * 9, head[:-1], b"\x00\x3c", chance.randbytes(20)]
    parts = [method(number, code, **fields), frame(spec.FRAME_HEADER, number, chance.choice(heads))]
    parts += [frame(spec.FRAME_BODY, number, part) for part in chance.choice([[body], [body[:3], body[3:]]])]
    if chance.random() < 0.1:
        del parts[chance.randrange(3)]
    return b"".join(parts)


def broken(chance: random.Random, octets: bytes) -> bytes:
    """Return octets with something else in them, or cut off."""
    if not octets:
        return octets
    out = bytearray(octets)
    for _ in range(chance.randrange(1, 4)):
        out[chance.randrange(len(out))] = chance.randrange(256)
    return bytes(out[: chance.choice([len(out), chance.randrange(len(out) + 1)])])


def due_091(chance: random.Random, engine: Engine091) -> bytes:
    """Return an answer that is due on a channel, with fields of chance; or content on it."""
    channels = [channel for channel in engine.channels.by_number.values() if not channel.is_closed]
    channel = chance.choice(channels) if channels else None
    if channel is None or chance.random() < 0.3:
        return method_of_chance(chance)
    if channel.calls and channel.calls[0].expected:
        code = chance.choice(channel.calls[0].expected)
        fields = {name: argument(chance, kind) for name, kind in spec.METHODS[code].fields}
        return method(channel.number, code, **fields)
    return content_of_chance(chance, channel.number)


def said_091(chance: random.Random, engine: Engine091) -> bytes:
    """Return what the server says next: mostly what is due, with wrong words."""
    make = chance.choice([method_of_chance, content_of_chance])
    octets = due_091(chance, engine) if chance.random() < 0.8 else make(chance)
    return broken(chance, octets) if chance.random() < 0.1 else octets


@pytest.mark.parametrize("state", STATES_091)
def test_lies_of_chance_over_amqp_091(state: str) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(f"{state} {seed}yyxxx")
        engine, _ = made = STATES_091[state]()
        assert isinstance(engine, Engine091)
        for _ in range(chance.randrange(1, 12)):
            hear(made, said_091(chance, engine))
        end(made)


# AMQP 1.0

PERFORMATIVES = (0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18)
SASL = (0x40, 0x41, 0x42, 0x43, 0x44)
STATES = (0x23, 0x24, 0x25, 0x26, 0x27, 0x1D, 0x28, 0x29, 0x30, 0x31, 0x32, 0x33, 0x34)


def value_10(chance: random.Random, depth: int = 0) -> Any:
    """Return a value of chance of AMQP 1.0."""
    kinds: list[Callable[[], Any]] = [
        lambda: None,
        lambda: chance.random() < 0.5,
        lambda: uint(chance.choice([0, 0, 1, 1, 2, 7, 100, 0xFFFFFFFF])),
        lambda: ulong(chance.choice([0, 1, 0xFFFFFFFFFFFFFFFF])),
        lambda: chance.choice(["", "publisher-1", "receiver-2", "1.1", "1", "a", "200", "x"]),
        lambda: chance.randbytes(chance.randrange(9)),
        lambda: Symbol(chance.choice(["amqp:not-found", "a", "penstock:known"])),
        lambda: -5,
    ]
    if depth < 3:
        kinds += [
            lambda: [value_10(chance, depth + 1) for _ in range(chance.randrange(3))],
            lambda: {Symbol(chance.choice("abc")): value_10(chance, depth + 1) for _ in range(chance.randrange(3))},
            lambda: Described(ulong(chance.choice(STATES)), [value_10(chance, depth + 1) for _ in range(3)]),
        ]
    return chance.choice(kinds)()


def performative_of_chance(chance: random.Random) -> bytes:
    is_sasl = chance.random() < 0.2
    code = chance.choice(SASL if is_sasl else PERFORMATIVES)
    fields = [value_10(chance) for _ in range(chance.randrange(12))]
    payload = chance.choice([b"", chance.randbytes(chance.randrange(40)), message_of_chance(chance)])
    octets = encode_value(Described(ulong(code), fields)) + (payload if code == spec10.TRANSFER else b"")
    return frame10(chance.choice([0, 0, 0, 0, 1, 9]), octets, spec10.FRAME_SASL if is_sasl else 0)


def message_of_chance(chance: random.Random) -> bytes:
    """Return sections of a message, in the right order or not."""
    sections = [
        encode_value(Described(ulong(0x70), [value_10(chance) for _ in range(chance.randrange(6))])),
        encode_value(Described(ulong(0x72), {Symbol("x-exchange"): value_10(chance)})),
        encode_value(Described(ulong(0x73), [value_10(chance) for _ in range(chance.randrange(13))])),
        encode_value(Described(ulong(0x74), value_10(chance))),
        encode_value(Described(ulong(chance.choice([0x75, 0x76, 0x77])), chance.choice([b"x", value_10(chance)]))),
    ]
    if chance.random() < 0.2:
        chance.shuffle(sections)
    return b"".join(each for each in sections if chance.random() < 0.7)


def transfer_of_chance(chance: random.Random, handle: int = 1) -> bytes:
    """Return a transfer that an engine takes, with a message of chance or the answer to a request."""
    fields = {"handle": handle, "delivery_id": chance.choice([0, 1, 1 << 31]), "delivery_tag": b"t"}
    more, aborted = chance.choice([None, None, True]), chance.choice([None, None, None, True])
    octets = performative(spec10.TRANSFER, more=more, aborted=aborted, **fields)[8:]
    number, kind = chance.choice(["1", "1.1", "1.2"]), Symbol(chance.choice(KINDS) or "a")
    properties = [None, None, None, chance.choice(["200", "201", "404", "x", None]), None, number, kind]
    body = chance.choice([Described(ulong(0x75), chance.choice(ANSWERS)), Described(ulong(0x77), value_10(chance))])
    answer = encode_value(Described(ulong(0x73), properties)) + encode_value(body)
    return frame10(0, octets + chance.choice([message_of_chance(chance), answer]))


def attach_of_chance(chance: random.Random, link: Link) -> bytes:
    """Return the attach of a link, perhaps without ends, and with properties of chance."""
    fields: dict[str, Any] = {"name": link.name, "handle": link.handle, "role": not link.is_receiver}
    ends = {"source": composite(spec10.SOURCE, address="a"), "target": composite(spec10.TARGET, address="a")}
    properties = {Symbol(f"penstock:{name}"): value_10(chance) for name in ("known", "taken", "refused")}
    fields |= chance.choice([ends, ends, ends, {}])
    return performative(
        spec10.ATTACH, initial_delivery_count=0, properties=chance.choice([properties, {}, None]), **fields
    )


WINDOWS = {"next_incoming_id": 0, "incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 100}


def due_10(chance: random.Random, engine: Engine10) -> bytes:
    """Return what a link of the engine may be told: its attach, credit, a message, outcomes or its end."""
    session = engine.sessions.begun[0] if engine.sessions.begun else None
    links = [] if session is None else [link for link in session.links if link is not None]
    if session is None or not links:
        return performative_of_chance(chance)
    link = chance.choice(links)
    known = {other: handle for handle, other in session.remote.items()}
    if link not in known:
        return attach_of_chance(chance, link)
    if chance.random() < 0.1:
        error = chance.choice([None, composite(spec10.ERROR, condition="amqp:not-found", description="gone")])
        return performative(spec10.DETACH, handle=known[link], closed=chance.random() < 0.5, error=error)
    if link.is_receiver and chance.random() < 0.7:
        return transfer_of_chance(chance, known[link])
    if chance.random() < 0.5:
        return flow_of_chance(chance, known[link])
    first = chance.choice([0, 0, 1, 2])
    state = Described(ulong(chance.choice(STATES)), [value_10(chance) for _ in range(chance.randrange(4))])
    fields = [chance.random() < 0.9, uint(first), uint(first + chance.choice([0, 0, 1, 90])), True, state]
    return frame10(0, encode_value(Described(ulong(spec10.DISPOSITION), fields)))


def flow_of_chance(chance: random.Random, handle: int) -> bytes:
    """Return a flow of a link."""
    fields: dict[str, Any] = {
        "delivery_count": chance.choice([None, 0, 1, 5]),
        "link_credit": chance.choice([None, 0, 1, 9]),
        "drain": chance.random() < 0.3,
        "echo": chance.random() < 0.3,
        "available": chance.choice([None, 7]),
    }
    names = ("blocked-by", "since", "queue", "retry-after", "depth", "stop")
    reason = {Symbol(f"penstock:{name}"): value_10(chance) for name in names}
    reason[Symbol("penstock:blocked-by")] = chance.choice(["queue 'q'", 7])
    return performative(spec10.FLOW, handle=handle, **WINDOWS, **fields, properties=chance.choice([None, reason]))


def said_10(chance: random.Random, engine: Engine10) -> bytes:
    """Return what the server says next: mostly what is due, with wrong words."""
    make = chance.choice([performative_of_chance, transfer_of_chance])
    octets = due_10(chance, engine) if chance.random() < 0.8 else make(chance)
    if chance.random() < 0.05:
        octets = chance.choice([AMQP_HEADER, SASL_HEADER]) + octets
    return broken(chance, octets) if chance.random() < 0.1 else octets


@pytest.mark.parametrize("state", STATES_10)
def test_lies_of_chance_over_amqp_10(state: str) -> None:
    for seed in range(ROUNDS):
        chance = random.Random(f"{state} {seed}yyxxx")
        engine, _ = made = STATES_10[state]()
        assert isinstance(engine, Engine10)
        for _ in range(chance.randrange(1, 12)):
            hear(made, said_10(chance, engine))
        end(made)


@pytest.mark.parametrize("state", STATES_10)
def test_performative_in_each_state_raises_client_errors_only(state: str) -> None:
    for code in (*PERFORMATIVES, *SASL, *STATES, 0x99):
        kind = spec10.FRAME_SASL if code in SASL else 0
        for fields in ([], [None] * 15, [uint(0)] * 11):
            lie(STATES_10[state](), frame10(0, encode_value(Described(ulong(code), fields)), kind))
