"""Command `messages move`: messages of a queue of one broker into a queue of another, which need not be Penstock.

A message is acknowledged at its broker after the other one has confirmed it, so none is lost: at least once. After an
interruption, some of the last messages may be in both queues. With `--all` the queues of the target, which is Penstock
then, take the messages of the queues of their names.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from penstock.cli import common
from penstock.cli.common import control_session, print_result
from penstock.cli.messages import NOTICE_S, Sending
from penstock.cli.parameters import Json, Url, command, option
from penstock.errors import ConfigError, InvalidField, PenstockError
from penstock.settings.kind import whole
from penstock.texts import counted

if TYPE_CHECKING:
    from penstock.client.blocking import Connection, Receiver
    from penstock.client.engine.messages import Message
    from penstock.client.engine.receiver import Delivery
    from penstock.content.properties import Properties
    from penstock.content.selector.selector import Selector

BATCH_MESSAGES: Final = 500
BATCH_BYTES: Final = 4 * 1024 * 1024
"""Most messages, and bytes of bodies, on their way at a time."""
EMPTY_S: Final = 2.0
"""Seconds without a message after which a queue counts as empty."""
NEXT_S: Final = 0.05
"""Seconds for which a batch waits for another message."""
UNMATCHED_MOST: Final = 10_000
"""Most messages that the filter does not match: they stay unacknowledged until the end."""
SAID_MOST: Final = 5
"""Most names of queues in the sentence of the counts."""
STREAM: Final = "stream"
COPIES: Final = ("CC", "BCC")
"""Headers by which a broker routes copies."""
FROM: Final = "Move from the broker of this URL; default: the broker of --url."
TO: Final = "Move to the broker of this URL; default: the broker of --url."
ALL: Final = "Move the messages of each queue that both virtual hosts have; the target must be Penstock."


@dataclass
class Counts:
    """Counts of a move."""

    moved: int = 0
    refused: int = 0
    unmatched: int = 0
    doubtful: int = 0
    """Messages on their way when the move was interrupted: they may be in both queues."""
    queues: int = 0
    """Queues from which messages were moved."""
    absent: list[str] = field(default_factory=list)
    """With --all: queues of the target that the other broker has not, or does not give away."""
    streams: list[str] = field(default_factory=list)
    """With --all: streams of the target, whose messages nobody can take out of the other broker."""
    undelivered: int = 0
    """Messages that were ready in a queue, and that the broker did not deliver."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Properties and headers that were not sent, by name."""
    reasons: list[str] = field(default_factory=list)

    def answer(self) -> dict[str, object]:
        """Return the counts as JSON."""
        return {
            "moved": self.moved,
            "refused": self.refused,
            "unmatched": self.unmatched,
            "doubtful": self.doubtful,
            "queues": self.queues,
            "absent": self.absent,
            "streams": self.streams,
            "undelivered": self.undelivered,
            "left_out": self.left_out,
            "reasons": self.reasons,
        }

    def sentences(self) -> str:
        """Return the counts as a sentence."""
        parts = [f"{counted(self.moved, 'message')} moved, of {counted(self.queues, 'queue')}"]
        if self.absent:
            names = _some(self.absent)
            parts.append(f"{counted(len(self.absent), 'queue')} not moved, as the other broker has none: {names}")
        if self.streams:
            names = _some(self.streams)
            parts.append(f"{counted(len(self.streams), 'stream')} not moved, as streams keep their messages: {names}")
        if self.undelivered:
            parts.append(f"{self.undelivered:,} were not delivered: consumers have them, or the queue is a stream")
        if self.unmatched:
            parts.append(f"{self.unmatched:,} not matched by the filter")
        if self.refused:
            why = f" ({self.reasons[-1]})" if self.reasons else ""
            parts.append(f"{self.refused:,} refused and left{why}")
        if self.doubtful:
            parts.append(f"{self.doubtful:,} were on their way and may be in both queues")
        parts += [f"{name} of {counted(count, 'message')} is left out" for name, count in self.left_out.items()]
        return "; ".join(parts)


def _some(names: list[str]) -> str:
    return ", ".join(names[:SAID_MOST]) + (", ..." if len(names) > SAID_MOST else "")


@command()
def move(
    source: Annotated[str | None, option("Take the messages of this queue.", "QUEUE", "--from")],
    target: Annotated[str | None, option("Publish the messages to this queue; default: its name.", "QUEUE", "--to")],
    every: Annotated[bool, option(ALL, option="--all")],
    from_url: Annotated[str | None, option(FROM, "URL")],
    to_url: Annotated[str | None, option(TO, "URL")],
    count: Annotated[int | None, option("Move at most N messages.", "N", "-n --count", kind=whole(1))],
    filter: Annotated[str, option("Move messages that this selector matches.", "SELECTOR", default="")],
    as_json: Json,
    url: Url,
) -> None:
    """Move messages of a queue of one broker into a queue of another; either may be RabbitMQ or Artemis.

    Properties and headers are kept. A message leaves its queue after the other broker has confirmed it; if the command
    is interrupted, some of the last messages may be in both. Within one broker `penstock queues move` is exact. Exit
    code 1: a message was refused. For example: penstock messages move --from orders
    --from-url amqp://guest:guest@old-broker/, or penstock messages move --all --from-url amqp://guest:guest@old-broker/
    """
    first, second = from_url or url, to_url or url
    if every and (source or target or count):
        raise ConfigError("--all moves all messages of all queues: leave out --from, --to and --count")
    if not every and not source:
        raise ConfigError("name a queue by --from, or move all queues by --all")
    if first == second and (every or source == (target or source)):
        raise ConfigError(f"queue '{source or 'each'}' cannot be moved onto itself")
    counts, ended = Counts(), ""
    try:
        with control_session(first) as old, control_session(second) as new:
            user = urlsplit(second).username or "guest"
            if source:
                Moving(old, new, source, target or source, filter, user, counts).run(count)
            else:
                _move_all(old, new, filter, user, counts)
    except KeyboardInterrupt:
        ended = "interrupted"
    except PenstockError as error:
        if not counts.moved and not counts.doubtful:
            raise
        ended = str(error)
    sentence = f"{counts.sentences()}{f'; {ended}' if ended else ''}"
    print_result(as_json, {**counts.answer(), "error": ended or None}, sentence)
    if ended:
        sys.exit(common.INTERRUPTED if ended == "interrupted" else 1)
    if counts.refused:
        sys.exit(1)


def _move_all(old: Connection, new: Connection, filter: str, user: str, counts: Counts) -> None:
    """Move the messages of all queues that both brokers have, but for streams and exclusive queues."""
    from penstock.client.errors import ChannelClosed, ControlError, LinkClosed

    queues = [each for each in new.list("queues") if not each["exclusive"]]
    counts.streams = [str(each["name"]) for each in queues if each["type"] == STREAM]
    for name in [str(each["name"]) for each in queues if each["type"] != STREAM]:
        try:
            moving = Moving(old, new, name, name, filter, user, counts)
        except (ChannelClosed, ControlError, LinkClosed):
            counts.absent.append(name)
        else:
            moving.run(None)


class Moving:
    """One move between two connections."""

    def __init__(
        self, old: Connection, new: Connection, source: str, target: str, filter: str, user: str, counts: Counts
    ) -> None:
        self._counts = counts
        self._user = user
        """User of the other broker, which refuses messages of other users."""
        self._selector = None if old.protocol == "amqp10" else _selector(filter)
        """Selector that is applied here: AMQP 0-9-1 has none."""
        _check_there(new, target)
        self._ready = _check_there(old, source)
        """Messages that were ready at the beginning; None if unknown."""
        selector = filter if old.protocol == "amqp10" else ""
        self._receiver: Receiver = old.receiver(
            source, prefetch=BATCH_MESSAGES, consumerWindowSize=-1, selector=selector
        )
        self._publisher = new.publisher(routing_key=target, durable=False, flow_control_wait_notify_period=86_400)
        self._new = new
        self._left: list[Delivery] = []
        """Unmatched and refused deliveries, which are released at the end."""

    def run(self, most: int | None) -> None:
        """Move messages until the end of the queue as it was at the beginning, or the number of messages."""
        seen, before = 0, self._counts.moved
        try:
            while most is None or self._counts.moved < most:
                room = BATCH_MESSAGES if most is None else min(BATCH_MESSAGES, most - self._counts.moved)
                if self._ready is not None:
                    room = min(room, self._ready - seen)
                batch, looked_at = self._batch(room)
                seen += looked_at
                if batch:
                    self._send(batch)
                if looked_at == 0:
                    self._counts.undelivered += (self._ready or seen) - seen
                    return
        finally:
            for delivery in self._left:
                delivery.release()
            self._receiver.close()
            self._counts.queues += self._counts.moved > before

    def _batch(self, room: int) -> tuple[list[Delivery], int]:
        """Return the next messages that match, and the number of messages that were looked at."""
        batch: list[Delivery] = []
        looked_at = size = 0
        while looked_at < room and size < BATCH_BYTES:
            delivery = self._receiver.receive(NEXT_S if looked_at else EMPTY_S)
            if delivery is None:
                break
            looked_at += 1
            if self._selector is None or _matches(self._selector, delivery.properties):
                batch.append(delivery)
                size += len(delivery.body)
                continue
            self._counts.unmatched += 1
            self._left.append(delivery)
            if len(self._left) > UNMATCHED_MOST:
                raise ConfigError(f"more than {UNMATCHED_MOST:,} messages are left; the others were not looked at")
        return batch, looked_at

    def _send(self, batch: list[Delivery]) -> None:
        """Publish messages, and acknowledge those that are confirmed."""
        from penstock.client.engine.window import SendResult

        result = SendResult()
        counts = self._counts
        sending = Sending(self._new, self._publisher, result, None, NOTICE_S)
        try:
            sending.send(self._messages(batch))
        except BaseException:
            counts.doubtful += len(batch) - result.refused_count
            raise
        sending.reporter.end()
        refused = {each.index: each.reason for each in result.refused}
        for index, delivery in enumerate(batch):
            if index not in refused:
                delivery.accept()
                counts.moved += 1
                continue
            self._left.append(delivery)
            counts.refused += 1
            if refused[index] not in counts.reasons[:10]:
                counts.reasons.append(refused[index])

    def _messages(self, batch: list[Delivery]) -> Sequence[Message]:
        from penstock.client.engine.messages import Message

        return [Message(each.body, properties=self._resent(each.properties)) for each in batch]

    def _resent(self, properties: Properties) -> Properties:
        """Return the properties of a message, without those by which the other broker would refuse or copy it."""
        left_out = self._counts.left_out
        if properties.user_id is not None and properties.user_id != self._user:
            properties.user_id = None
            left_out["user_id"] = left_out.get("user_id", 0) + 1
        headers = properties.headers
        for name in COPIES if headers else ():
            if headers is not None and headers.pop(name, None) is not None:
                left_out[name] = left_out.get(name, 0) + 1
        return properties


def _check_there(connection: Connection, queue: str) -> int | None:
    """Return the number of ready messages of a queue that exists; None if the broker does not say."""
    if connection.protocol == "amqp10":
        return None
    answer = common.ask(connection, "queue.declare", {"queue": queue, "passive": True}, True)
    return int(answer["message_count"])


def _selector(text: str) -> Selector | None:
    from penstock.content.selector.selector import parse_selector

    try:
        return parse_selector(text)
    except InvalidField as error:
        raise ConfigError(f"--filter is not a selector: {error}") from None


def _matches(selector: Selector, properties: Properties) -> bool:
    from penstock.content.selector.fields import NeutralMessage

    return bool(selector.matches(NeutralMessage(properties)))
