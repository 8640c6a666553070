"""One broker, driven through bare sockets step by step, and everything that it has answered, in a form to compare."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from pamqp import base, commands, frame, header

from tests.support.brokers import eventually
from tests.support.method_sequences import EXCHANGES, NAMES, QUEUES, UNKNOWN, ZERO, Step, frame_of, full
from tests.support.raw_client import BODY, HEADER, HEARTBEAT, METHOD, GoneError, Peer, publish_frames, raw_frame

BARRIER = "amq.match"
"""An exchange that only the barrier asks for: when its answer has come, everything before it has been answered."""
CONTENT = (commands.Basic.Deliver, commands.Basic.GetOk, commands.Basic.Return)
MADE = re.compile(r"amq\.(gen|ctag)-[\w-]+")


@dataclass(frozen=True)
class Address:
    """Where a broker listens, as a `Peer` wants it."""

    host: str
    port: int


@dataclass
class Channel:
    """What has been heard on one channel number, over all its lives."""

    is_open: bool = False
    replies: list[Any] = field(default_factory=list)
    deliveries: list[Any] = field(default_factory=list)
    returns: list[Any] = field(default_factory=list)
    cancels: list[str] = field(default_factory=list)
    confirms: dict[int, str] = field(default_factory=dict)
    """By the number of the publish, in this life of the channel."""
    confirming: bool = False
    published: int = 0
    """Publishes in this life that must be confirmed."""
    tags: list[int] = field(default_factory=list)
    """Delivery tags that the sequence has not settled."""
    declares: list[bool] = field(default_factory=list)
    """Declarations of exchanges that have not been answered: whether each is the barrier."""

    def ended(self) -> None:
        self.is_open = False
        self.replies.append(("confirmed", *sorted(self.confirms.items())))
        self.confirms.clear()
        self.confirming, self.published = False, 0
        self.tags.clear()
        self.declares.clear()

    def seen(self) -> tuple[Any, ...]:
        return (
            self.is_open, list(self.replies), list(self.deliveries), list(self.returns), sorted(self.cancels),
            sorted(self.confirms.items()),
        )  # fmt: skip


class Wire:
    """One connection with its channels."""

    def __init__(self, address: Address, names: Names) -> None:
        self.address = address
        self.names = names
        self.peer: Peer | None = None
        self.channels: dict[int, Channel] = {}
        self.closes: list[Any] = []
        """Each end of the connection that the broker has brought about."""
        self._content: dict[int, tuple[base.Frame, list[Any]]] = {}

    def channel(self, number: int) -> Channel:
        return self.channels.setdefault(number, Channel())

    def connect(self) -> Peer:
        if self.peer is None:
            self.peer = Peer(self.address).open()
        return self.peer

    def lost(self) -> None:
        """Forget the connection, which the broker has closed."""
        if self.peer is not None:
            self.peer.close()
            self.peer = None
        for channel in self.channels.values():
            if channel.is_open:
                channel.ended()

    def sync(self) -> None:
        """Hear on every open channel all that the broker has said until now."""
        for number, channel in self.channels.items():
            if channel.is_open and self.peer is not None:
                channel.declares.append(True)
                self.peer.send(number, commands.Exchange.Declare(exchange=BARRIER, passive=True))
        while self.peer is not None and any(channel.declares for channel in self.channels.values()):
            self.hear()

    def hear(self) -> None:
        """Take in the next frame."""
        try:
            kind, number, payload = self.peer.read_frame()
        except GoneError:
            self.closes.append("the socket was closed without a word")
            self.lost()
            return
        if kind == METHOD:
            method = frame.unmarshal(raw_frame(kind, number, payload))[2]
            assert isinstance(method, base.Frame)
            if isinstance(method, CONTENT):
                self._content[number] = (method, [])
            else:
                self._heard(number, method)
        elif kind in (HEADER, BODY):
            self._part(number, kind, payload)
        else:
            assert kind == HEARTBEAT

    def _part(self, number: int, kind: int, payload: bytes) -> None:
        method, parts = self._content[number]
        parts.append(frame.unmarshal(raw_frame(kind, number, payload))[2])
        head = parts[0]
        assert isinstance(head, header.ContentHeader)
        if sum(len(part.value) for part in parts[1:]) >= head.body_size:
            body = b"".join(part.value for part in parts[1:])
            self._got(self.channel(number), method, {**self.names.told(dict(head.properties)), "body": body})

    def _got(self, channel: Channel, method: base.Frame, content: dict[str, Any]) -> None:
        entry = (method.name, self.names.told(dict(method)), content)
        if isinstance(method, commands.Basic.Return):
            entry[1].pop("reply_text")
            channel.returns.append(entry)
            return
        channel.tags.append(int(dict(method)["delivery_tag"]))
        (channel.deliveries if isinstance(method, commands.Basic.Deliver) else channel.replies).append(entry)

    def _heard(self, number: int, method: base.Frame) -> None:
        channel = self.channel(number)
        if isinstance(method, commands.Connection.Close):
            self.closes.append(("Connection.Close", method.reply_code, method.class_id, method.method_id))
            self.peer.send(0, commands.Connection.CloseOk())
            self.lost()
        elif isinstance(method, commands.Channel.Close):
            channel.replies.append(("Channel.Close", method.reply_code, method.class_id, method.method_id))
            self.peer.send(number, commands.Channel.CloseOk())
            channel.ended()
        elif isinstance(method, commands.Channel.CloseOk):
            channel.replies.append("Channel.CloseOk")
            channel.ended()
        elif isinstance(method, commands.Exchange.DeclareOk) and channel.declares.pop(0):
            pass
        elif isinstance(method, commands.Basic.Ack | commands.Basic.Nack):
            self._confirmed(channel, method)
        elif isinstance(method, commands.Basic.Cancel):
            channel.cancels.append(self.names.told(method.consumer_tag))
        else:
            if isinstance(method, commands.Channel.OpenOk):
                channel.is_open = True
            elif isinstance(method, commands.Confirm.SelectOk):
                channel.confirming = True
            channel.replies.append((method.name, self.names.told(dict(method))))

    def _confirmed(self, channel: Channel, method: commands.Basic.Ack | commands.Basic.Nack) -> None:
        last = method.delivery_tag or 0
        first = max(channel.confirms, default=0) + 1 if method.multiple else last
        if method.multiple:
            first = min([n for n in range(1, last + 1) if n not in channel.confirms], default=last)
        for number in range(first, last + 1):
            if method.multiple and number in channel.confirms:
                continue
            assert number not in channel.confirms, f"publish {number} was answered twice"
            channel.confirms[number] = method.name


def untold(key: str) -> bool:
    """Tell what is not compared: the time of a death, and the last death, which RabbitMQ tells from 3.13 on."""
    return key == "time" or key.startswith("x-last-death-")


class Names:
    """What names are called in a comparison: without the sequence's prefix, and made names by number."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._made: dict[str, str] = {}

    def told(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.told(each) for key, each in value.items() if each not in (None, "") and not untold(key)}
        if isinstance(value, list):
            return [self.told(each) for each in value]
        if isinstance(value, str):
            return MADE.sub(self._number, value).replace(self.prefix, "")
        return value

    def made(self, kind: str) -> list[str]:
        """Return the names of this kind that the broker has made, as they are."""
        return [name for name in self._made if name.startswith(f"amq.{kind}-")]

    def _number(self, found: re.Match[str]) -> str:
        return self._made.setdefault(found[0], f"amq.{found[1]}-{len(self._made) + 1}")


class Side:
    """One broker: the sequence's connections to it, and one that only looks."""

    def __init__(self, name: str, address: Address) -> None:
        self.name = name
        self.address = address
        self._looks: set[int] = set()
        self.prefix = ""
        self.wires: dict[int, Wire] = {}
        self.published = 0

    def begin(self, prefix: str) -> None:
        self.prefix, self.published = prefix, 0
        self._looks.clear()
        self._looking = Peer(self.address).open()
        self._looking.channel(99)
        self._names = Names(prefix)
        self.wires = {number: Wire(self.address, self._names) for number in (0, 1)}

    def end(self) -> None:
        """Close the sequence's connections in good order and remove what it has left."""
        for wire in self.wires.values():
            if wire.peer is not None:
                wire.peer.send(0, commands.Connection.Close(200, "", 0, 0))
                while wire.peer is not None:
                    kind, _, payload = wire.peer.read_frame()
                    if kind == METHOD and payload[:4] == b"\x00\x0a\x00\x33":  # connection.close-ok
                        wire.lost()
        for exchange in EXCHANGES:
            self._looking.ask(99, commands.Exchange.Delete(exchange=self.prefix + exchange), commands.Exchange.DeleteOk)
        for queue in [*(self.prefix + name for name in QUEUES), *self._names.made("gen")]:
            eventually(lambda queue=queue: self._deleted(queue), f"{queue} is deleted")  # type: ignore[misc]
        self._looking.close()

    def _deleted(self, queue: str) -> bool:
        """Delete a queue; an exclusive one is still locked for a moment after its connection has gone."""
        self._looking.send(99, commands.Queue.Delete(queue=queue))
        _, answer = self._looking.read_method()
        if isinstance(answer, commands.Channel.Close):
            self._looking.send(99, commands.Channel.CloseOk())
            self._looking.channel(99)
        return isinstance(answer, commands.Queue.DeleteOk)

    def act(self, step: Step, tag: int) -> None:
        """Do a step and wait until the broker has answered it, opening its channel first if that is closed."""
        wire = self.wires[step.where[0]]
        number = step.where[1]
        peer, channel = wire.connect(), wire.channel(number)
        if not channel.is_open:
            peer.send(number, commands.Channel.Open())
            while wire.peer is not None and not channel.is_open:
                wire.hear()
            if step.method == "Channel.Open":
                return
        if step.method == "Basic.Publish":
            self.published += 1
            channel.published += channel.confirming
            properties = full(step.fields.get("properties", {}), self.prefix)
            body = str(self.published).encode()
            content = publish_frames(number, "", "", body, properties)
            method = frame.marshal(frame_of(step, self.prefix, tag), number)
            peer.say(method + content[len(publish_frames_method(number)) :])
        else:
            if step.method == "Exchange.Declare":
                channel.declares.append(False)
            peer.send(number, frame_of(step, self.prefix, tag))
        # RabbitMQ takes no other method before these two are done with.
        heard = len(channel.replies)
        while step.method in ("Channel.Close", "Tx.Commit") and wire.peer is not None and len(channel.replies) == heard:
            wire.hear()
        wire.sync()

    def tag(self, step: Step) -> int:
        """Return the delivery tag that a step means: one that is unsettled, if there is any."""
        pick = step.fields.get("pick", 0)
        tags = self.wires[step.where[0]].channel(step.where[1]).tags
        if pick == ZERO:
            return 0
        return 99 if pick == UNKNOWN or not tags else tags[pick % len(tags)]

    def settled(self, step: Step, tag: int) -> None:
        """Take note of what a step has settled."""
        channel = self.wires[step.where[0]].channel(step.where[1])
        if "pick" in step.fields and channel.is_open:
            many = step.fields.get("multiple", False)
            channel.tags[:] = [one for one in channel.tags if not (one == tag or (many and (one < tag or tag == 0)))]

    def seen(self) -> dict[Any, Any]:
        """Hear what there is, and return everything that has been seen, and what an onlooker sees now."""
        looked = self.look()
        for wire in self.wires.values():
            wire.sync()
        found: dict[Any, Any] = {
            (connection, number): channel.seen()
            for connection, wire in self.wires.items()
            for number, channel in sorted(wire.channels.items())
        }
        closes = {(number, 0): list(wire.closes) for number, wire in self.wires.items()}
        return found | closes | {"there is": looked}

    def look(self) -> dict[str, Any]:
        """Return depth and consumers of each queue, whether each exchange is there, or the code of the refusal."""
        peer, found = self._looking, {}
        for number in {*range(1, len(NAMES) + 1)} - self._looks:
            self._looks.add(peer.channel(number))
        for number, name in enumerate(NAMES, 1):
            declare: base.Frame = commands.Exchange.Declare(exchange=self.prefix + name, passive=True)
            if name in QUEUES:
                declare = commands.Queue.Declare(queue=self.prefix + name, passive=True)
            peer.send(number, declare)
        for _ in NAMES:
            number, method = peer.read_method()
            name = NAMES[number - 1]
            if isinstance(method, commands.Channel.Close):
                peer.send(number, commands.Channel.CloseOk())
                self._looks.discard(number)
                found[name] = method.reply_code
            elif isinstance(method, commands.Queue.DeclareOk):
                found[name] = (method.message_count, method.consumer_count)
            else:
                assert isinstance(method, commands.Exchange.DeclareOk)
                found[name] = True
        return found


def publish_frames_method(channel: int) -> bytes:
    """Return the method frame of an empty publish, to be replaced by another."""
    return frame.marshal(commands.Basic.Publish(), channel)
