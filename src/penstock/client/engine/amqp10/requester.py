"""Requester of AMQP 1.0: a link to the target, and a dynamic node for the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.client.engine.amqp10.requests import Request, RequestPair
from penstock.client.engine.amqp10.session import reason_of
from penstock.client.engine.messages import Message
from penstock.client.engine.requester import Requester
from penstock.client.errors import ClientError
from penstock.content.properties import Properties
from penstock.markers import override
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite
from penstock.wire.amqp10.disposition import Disposition
from penstock.wire.amqp10.neutral_message import data_section, encode_head
from penstock.wire.amqp10.neutral_properties import properties_of
from penstock.wire.amqp10.node_addresses import exchange_address, queue_address
from penstock.wire.amqp10.sections import Sections, joined_data

if TYPE_CHECKING:
    from penstock.client.engine.amqp10.connection import Engine10


class Requester10(Requester):
    """Requester with two links of its own."""

    def __init__(self, engine: Engine10, exchange: str, key: str) -> None:
        super().__init__(engine, exchange, key)
        self.connection = engine
        self.pair: CallPair | None = None

    @override
    def attach(self) -> None:
        self.pair = CallPair(self.connection, self)

    @override
    def write(self, message: Message, number: str, reply_to: str) -> None:
        assert self.pair is not None
        self.pair.add(CallRequest(number, message, self, reply_to))

    @override
    def drop(self, number: str) -> str:
        pair = self.pair
        if pair is None:
            return ""
        left = [request for request in pair.waiting if request.number != number]
        if len(left) == len(pair.waiting):
            return ""
        pair.waiting = left
        return "; it was not sent, for the broker gave no credit"

    @override
    def detach(self) -> None:
        if self.pair is not None:
            self.pair.fail(ClientError("the calls are closed"))


class CallPair(RequestPair):
    """Links of a requester."""

    def __init__(self, engine: Engine10, requester: Requester10) -> None:
        engine.links_made += 1
        key = requester.key
        target = exchange_address(requester.exchange, key) if requester.exchange else queue_address(key)
        source = composite(spec.SOURCE, dynamic=True, capabilities=["temporary-queue"])
        super().__init__(engine, f"calls-{engine.links_made}", target, source, False, is_settled=False)
        self.requester = requester

    @override
    def answered(self, content: bytes) -> None:
        sections = Sections()
        sections.walk(content, 0, len(content))
        properties = properties_of(content, sections)
        self.requester.answered(properties.correlation_id, joined_data(content, sections), properties)

    @override
    def fail(self, error: ClientError) -> None:
        super().fail(error)
        if self.requester.pair is self:
            self.requester.fail(error)


class CallRequest(Request):
    """Message that is encoded when the address of its answer is known."""

    def __init__(self, number: str, message: Message, requester: Requester10, reply_to: str) -> None:
        super().__init__(number, "", "", None, "", message.body)
        self.requester = requester
        self.properties = Properties(**message.properties.as_dict())  # type: ignore[arg-type]  # They come from there.
        self.properties.correlation_id = number
        self.properties.reply_to = reply_to or None
        encode_head(self.properties)  # What cannot be encoded is the caller's error, now and not when credit comes.

    @override
    def settled(self, disposition: Disposition) -> None:
        if disposition.state_code != spec.ACCEPTED:
            self.requester.refused(self.number, reason_of(disposition.state_code, disposition.state))

    @override
    def content(self, pair: RequestPair) -> bytes:
        if self.properties.reply_to is None:
            self.properties.reply_to = pair.reply_to
        return encode_head(self.properties) + data_section(self.octets)
