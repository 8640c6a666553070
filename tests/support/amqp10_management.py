"""A client of the management node: requests and responses by the two links of a pair."""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import composite, encode
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Symbol, ulong
from tests.support.amqp10_dialogue import Amqp10Dialogue
from tests.support.amqp10_messages import decode_message, delivered, plain

MANAGEMENT = "/management"


class Response(NamedTuple):
    status: int
    body: Any
    correlation: object


def request_message(method: str, path: str, body: object = None, **properties: Any) -> bytes:
    """Return a request as message."""
    fields = {"message_id": "1", "subject": method, "to": path, "reply_to": "$me", **properties}
    return encode(spec.PROPERTIES, **fields) + encode_value(Described(ulong(spec.AMQP_VALUE), body))


class ManagementClient:
    """The pair of links 20 and 21 on channel 0 of a dialogue."""

    def __init__(self, dialogue: Amqp10Dialogue | None = None) -> None:
        self.dialogue = Amqp10Dialogue() if dialogue is None else dialogue
        properties = {Symbol("paired"): True}
        fields: dict[str, object] = {"name": "pair", "properties": properties, "snd_settle_mode": 1}
        source = composite(spec.SOURCE, address=MANAGEMENT)
        self.attached = self.dialogue.attach_sender(MANAGEMENT, 20, source=source, **fields)
        self.attached += self.dialogue.attach_receiver(MANAGEMENT, 21, credit=1000, **fields)

    def ask(self, method: str, path: str, body: object = None, **properties: Any) -> Response:
        """Send a request and return its response; numbers and symbols are without their types."""
        message = request_message(method, path, body, **properties)
        (answer,) = delivered(self.dialogue.say(self.dialogue.transfer(message, 20, settled=True)))
        found = decode_message(answer)
        assert found.application == {"http:response": "1.1"}
        (section,) = found.body
        assert section[0] == "amqp-value"
        status = found.properties["subject"]
        assert isinstance(status, str)
        return Response(int(status), plain_body(section[1]), found.properties.get("correlation_id"))


def plain_body(value: object) -> Any:
    if isinstance(value, dict):
        return {plain(key): plain_body(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_body(item) for item in value]
    return plain(value)
