"""Octets that are nearly AMQP 0-9-1: whole conversations made of its grammar, and then spoilt here and there.

Everything follows from a seed. Names come from small pools, so that what one input makes the next one finds.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from typing import Final

from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.spec import METHODS, MethodSpec

QUEUES: Final = (
    "", *["q0", "q1", "q2", "q3"] * 5, "amq.gen-x", "amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.x", "q" * 255
)  # fmt: skip
RARE: Final = {
    "immediate": 200,
    "internal": 20,
    "active": 2,
    "requeue": 2,
    "passive": 6,
    "durable": 12,
    "auto_delete": 12,
}
"""One in how many times a bit is set; others one in four times."""
EXCHANGES: Final = (
    *[""] * 4, "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "e0", "e1", "penstock.control", "none"
)  # fmt: skip
KEYS: Final = ("q0", "q1", "q2", "q3", "", "a.b", "#", "*.b", "amq.rabbitmq.reply-to.x")
TAGS: Final = ("", "c0", "c1", "c2")
TEXTS: Final = {
    "queue": QUEUES,
    "exchange": EXCHANGES,
    "source": EXCHANGES,
    "destination": EXCHANGES,
    "routing_key": KEYS,
    "consumer_tag": TAGS,
    "type": ("direct", "fanout", "topic", "headers", "x-own"),
    "virtual_host": ("/", "v0", "moon"),
    "mechanism": ("PLAIN", "AMQPLAIN", "EXTERNAL"),
}
ARGUMENTS: Final = (
    "x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-overflow", "x-dead-letter-exchange",
    "x-dead-letter-routing-key", "x-max-priority", "x-queue-type", "x-single-active-consumer", "x-delivery-limit",
    "x-consumer-timeout", "x-match", "x-priority", "x-queue-mode", "alternate-exchange", "capacity-messages",
    "capacity-bytes", "stop-messages", "resume-messages", "hold-deadline", "overflow", "consumer-window-bytes",
    "consumer-max-rate", "slow-consumer-rate", "qpid.max_count", "CC", "BCC", "x-death", "note",
)  # fmt: skip
WORDS: Final = (
    "drop-head", "reject-publish", "block", "ring", "self-destruct", "classic", "quorum", "any", "all", "q1", "e0", "",
)  # fmt: skip
OPERATIONS: Final = (
    "status", "why", "cursor.attach", "cursor.plan", "cursor.range", "cursor.settle", "cursor.delete", "block",
    "unblock", "settings.set", "settings.unset", "settings.list", "show", "vhost.declare", "vhost.delete", "vhost.list",
    "queue.list", "no-such-operation",
)  # fmt: skip
NUMBERS: Final = (0, 1, 2, 3, 5, 10, 100, 255, 1000, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1)
SENT_BY_CLIENTS: Final = [
    method for method in METHODS.values() if not method.name.endswith("-ok") and method.id >> 16 not in (10,)
]
LIKELY: Final = [
    METHODS[id]
    for id in (
        spec.QUEUE_DECLARE, spec.QUEUE_DECLARE, spec.BASIC_CONSUME, spec.BASIC_GET, spec.BASIC_ACK, spec.BASIC_ACK,
        spec.BASIC_NACK, spec.BASIC_NACK, spec.BASIC_REJECT, spec.BASIC_QOS, spec.BASIC_CANCEL, spec.CONFIRM_SELECT,
        spec.QUEUE_BIND, spec.EXCHANGE_DECLARE, spec.BASIC_RECOVER, spec.QUEUE_PURGE, spec.CHANNEL_FLOW,
    )
]  # fmt: skip


SETTLING: Final = (spec.BASIC_ACK, spec.BASIC_NACK, spec.BASIC_REJECT)


class Octets:
    """A source of octets."""

    def __init__(self, seed: object) -> None:
        self.chance = random.Random(repr(seed))
        self.tags: list[int] = []
        """Delivery tags that have been given lately on the channel in question."""

    def one_in(self, number: int) -> bool:
        return self.chance.randrange(number) == 0

    # Fields

    def shortstr(self, name: str = "") -> bytes:
        pool = TEXTS.get(name)
        if pool is not None and not self.one_in(200):
            octets = self.chance.choice(pool).encode()
        else:
            octets = self.chance.choice((b"", b"x", b"\xff\xfe", "é".encode(), b"y" * 255, self.chance.randbytes(5)))
        return bytes([len(octets)]) + octets

    def longstr(self) -> bytes:
        octets = self.chance.choice((b"", b"\0guest\0guest", b"x" * 300, self.chance.randbytes(20)))
        return struct.pack(">I", len(octets)) + octets

    def table(self, depth: int = 0) -> bytes:
        entries = b""
        for _ in range(self.chance.choice((0, 0, 1, 1, 2, 4))):
            name = self.chance.choice(ARGUMENTS).encode()
            entries += bytes([len(name)]) + name + self.value(depth)
        return self.sized(entries)

    def sized(self, octets: bytes) -> bytes:
        """Octets with their size before them, which is a lie now and then."""
        size = len(octets) if not self.one_in(400) else self.chance.choice((0, 1, len(octets) + 1, 1 << 30, 2**32 - 1))
        return struct.pack(">I", size) + octets

    def value(self, depth: int) -> bytes:
        kind = self.chance.choice("IIIISSSStlLFAVTdfxDbBsui") if not self.one_in(300) else self.chance.choice("Zq\0")
        number = self.chance.choice((*NUMBERS[:12], -1, 4))
        if kind == "S":
            text = self.chance.choice(WORDS).encode() if not self.one_in(20) else self.chance.randbytes(6)
            return b"S" + self.sized(text)
        if kind in "FA" and depth < 5:
            inner = self.table(depth + 1) if kind == "F" else self.array(depth + 1)
            return kind.encode() + inner
        sizes = {"I": 4, "t": 1, "l": 8, "L": 8, "T": 8, "d": 8, "f": 4, "D": 5, "b": 1, "B": 1, "s": 2, "u": 2, "i": 4}
        if kind in sizes:
            return kind.encode() + (number % (1 << 8 * sizes[kind])).to_bytes(sizes[kind], "big")
        if kind == "x":
            return b"x" + self.sized(self.chance.randbytes(4))
        return kind.encode() + (self.sized(b"") if kind in "FA" else b"")

    def array(self, depth: int) -> bytes:
        return self.sized(b"".join(self.value(depth) for _ in range(self.chance.choice((0, 1, 3)))))

    def deep(self) -> bytes:
        """A table that lies very deep."""
        octets = struct.pack(">I", 0)
        for _ in range(self.chance.choice((5, 31, 32, 33, 500))):
            octets = struct.pack(">I", len(octets) + 3) + b"\x01tF" + octets
        return octets

    def number(self, size: int) -> bytes:
        number = self.chance.choice(NUMBERS) if self.one_in(4) else self.chance.randrange(5)
        return (number % (1 << 8 * size)).to_bytes(size, "big")

    # Methods

    def method(self, method: MethodSpec) -> bytes:
        """The payload of a method, its fields in order; now and then one is missing or of another type."""
        out = method.id.to_bytes(4, "big")
        bits: list[bool] = []
        for name, kind in (*method.fields, ("", "end")):
            if kind == "bit":
                bits.append(self.one_in(RARE.get(name, 4)) or (name == "requeue" and not self.one_in(20)))
                continue
            if bits:
                out += bytes([sum(1 << place for place, bit in enumerate(bits) if bit)])
                bits = []
            if kind != "end" and not self.one_in(800):
                out += self.field(name, kind if not self.one_in(800) else self.chance.choice(list(KINDS)))
        return out

    def field(self, name: str, kind: str) -> bytes:
        if kind == "shortstr":
            return self.shortstr(name)
        if name == "reserved_1":
            return bytes(2) if kind == "short" else self.longstr()
        if name == "delivery_tag" and self.tags and not self.one_in(20):
            return struct.pack(">Q", self.chance.choice(self.tags))
        return KINDS[kind](self)

    # Frames

    def frame(self, kind: int, channel: int, payload: bytes) -> bytes:
        size = len(payload)
        end = spec.FRAME_END
        if self.one_in(1500):
            size = self.chance.choice((0, size + 1, 131064, 131073, 2**32 - 1))
        if self.one_in(1500):
            end = self.chance.choice((0, 0xCD, 0xFF))
        if self.one_in(1500):
            kind = self.chance.choice((0, 1, 2, 3, 4, 8, 255))
        return struct.pack(">BHI", kind, channel, size) + payload + bytes([end])

    def properties(self) -> bytes:
        flags = 0
        out = b""
        if not self.one_in(3):
            for place, kind in enumerate("sstoossssqssss"):
                if self.one_in(3 if place in (2, 6, 7) else 8):
                    flags |= 0x8000 >> place
                    out += self.property(place, kind)
        if self.one_in(200):
            flags ^= 1 << self.chance.randrange(16)
        return struct.pack(">H", flags) + out

    def property(self, place: int, kind: str) -> bytes:
        if kind == "t":
            return self.table() if not self.one_in(60) else self.deep()
        if kind == "o":
            return self.number(1)
        if kind == "q":
            return self.number(8)
        texts: dict[int, tuple[bytes, ...]] = {
            6: (b"q0", b"q1", b"amq.rabbitmq.reply-to", b"nowhere"),
            7: (b"0", b"5", b"1000", b"1000000") * 5 + (b"-1", b"1.5", b"abc", b"9" * 30),
            11: (b"guest",) * 9 + (b"ada",),
        }
        octets = self.chance.choice(texts.get(place, (b"", b"text", b"\xff")))
        return bytes([len(octets)]) + octets

    def publish(self, channel: int) -> bytes:
        """A publish with its content, whose size is a lie now and then."""
        out = self.frame(spec.FRAME_METHOD, channel, self.method(METHODS[spec.BASIC_PUBLISH]))
        body = self.chance.randbytes(self.chance.choice((0, 1, 10, 10, 200, 200, 3000)))
        if self.one_in(60):
            return self.operation(channel)
        size = len(body) if not self.one_in(300) else self.chance.choice((0, 1, len(body) + 1, 1 << 40, 1 << 63))
        header = struct.pack(">HHQ", 60 if not self.one_in(600) else 50, int(self.one_in(600)), size)
        out += self.frame(spec.FRAME_HEADER, channel, header + self.properties())
        most = self.chance.choice((1, 100, 4088, 4096)) if self.one_in(10) and len(body) < 500 else 4088
        for at in range(0, len(body), most):
            out += self.frame(spec.FRAME_BODY, channel, body[at : at + most])
        return out

    def operation(self, channel: int) -> bytes:
        """A control operation."""
        asked = {
            "queue": self.chance.choice(QUEUES),
            "queues": [self.chance.choice(QUEUES)],
            "cursor": self.chance.choice(("r0", "r1")),
            "name": self.chance.choice(("v0", "v1", "")),
            "scope": self.chance.choice(("queue", "vhost", "user", "address", "broker", "none")),
            "pattern": self.chance.choice(("#", "q0", "q*", "", "guest")),
            "settings": {self.chance.choice(ARGUMENTS): self.chance.choice((1, 5, "none", -1, "x"))},
            "token": self.chance.randrange(4),
            "kind": "queue",
            "lo": self.chance.randrange(3),
            "hi": self.chance.randrange(9),
        }
        for name in list(asked):
            if self.one_in(6):
                asked[name] = self.chance.choice((None, 5, "x", [], {}, -1, True))
            elif self.one_in(6):
                del asked[name]
        body = json.dumps(asked).encode() if not self.one_in(10) else self.chance.randbytes(10)
        key = self.chance.choice(OPERATIONS).encode()
        method = struct.pack(">HHH", 60, 40, 0) + b"\x10penstock.control" + bytes([len(key)]) + key + b"\0"
        header = struct.pack(">HHQH", 60, 0, len(body), 0x0200) + b"\x02q0"
        return (
            self.frame(spec.FRAME_METHOD, channel, method)
            + self.frame(spec.FRAME_HEADER, channel, header)
            + self.frame(spec.FRAME_BODY, channel, body)
        )

    def something(self, channel: int) -> bytes:
        """One thing that a client may say on a channel."""
        draw = self.chance.randrange(100)
        if draw < 40:
            return self.publish(channel)
        if draw < 90:
            method = self.chance.choice(LIKELY)
            if method.id in SETTLING and not self.tags and not self.one_in(20):
                return self.publish(channel)
            return self.frame(spec.FRAME_METHOD, channel, self.method(method))
        if draw < 97:
            return self.frame(spec.FRAME_METHOD, channel, self.method(self.chance.choice(SENT_BY_CLIENTS)))
        if draw < 99 or not self.one_in(3):
            return self.frame(spec.FRAME_HEARTBEAT, 0, b"")
        if self.one_in(3):
            return self.frame(spec.FRAME_METHOD, channel, self.method(self.chance.choice(list(METHODS.values()))))
        if self.one_in(2):
            return self.frame(self.chance.choice((1, 2, 3)), channel, self.chance.randbytes(self.chance.randrange(40)))
        return self.chance.randbytes(self.chance.randrange(1, 60))

    def spoilt(self, data: bytes) -> bytes:
        """The same octets with one changed, left out or put in; mostly they are left as they are."""
        if not data or not self.one_in(100):
            return data
        at = self.chance.randrange(len(data))
        new = self.chance.choice((b"", self.chance.randbytes(1), self.chance.randbytes(2)))
        return data[:at] + new + data[at + 1 :]


KINDS: Final[dict[str, Callable[[Octets], bytes]]] = {
    "octet": lambda octets: octets.number(1),
    "short": lambda octets: octets.number(2),
    "long": lambda octets: octets.number(4),
    "longlong": lambda octets: octets.number(8),
    "shortstr": lambda octets: octets.shortstr(),
    "longstr": lambda octets: octets.longstr(),
    "table": lambda octets: octets.table() if not octets.one_in(100) else octets.deep(),
}
