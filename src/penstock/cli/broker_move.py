"""Move of the messages of one queue from a broker to another: in batches, each acknowledged after its confirms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.cli import common
from penstock.cli.messages import NOTICE_S, Sending
from penstock.cli.move_counts import MoveCounts
from penstock.cli.progress import Progress
from penstock.content.properties import COPIES
from penstock.errors import ConfigError, InvalidField

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


class BrokerMove:
    """One move between two connections."""

    def __init__(
        self,
        old: Connection,
        new: Connection,
        source: str,
        target: str,
        filter: str,
        user: str,
        counts: MoveCounts,
        progress: Progress,
    ) -> None:
        self._counts = counts
        self._progress = progress
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
        self._counts.looked_at += 1
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
        self._progress.tell(f"{counts.moved:,} messages moved, {counts.refused:,} refused")

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
