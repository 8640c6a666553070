"""Control operations from clients of AMQP 1.0: requests to the control exchange, answers to any queue."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.content.properties import Properties
from penstock.core.message import Envelope
from penstock.protocols.amqp091.content_frames import make_content
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import Composite, composite, encode
from penstock.wire.amqp10.value_writer import encode_value
from penstock.wire.amqp10.values import Described, Typed, ulong
from tests.support.amqp10_dialogue import Amqp10Dialogue, data_section
from tests.support.amqp10_messages import DecodedMessage, decode_message, delivered
from tests.support.large_messages import transfers

WHY = json.dumps({"queue": "q"}).encode()


def ask(client: Amqp10Dialogue, body: bytes, operation: str = "why", **properties: Any) -> DecodedMessage:
    """Send a request to the anonymous terminus and return the answer on link 2."""
    to = f"/exchanges/penstock.control/{operation}"
    request = encode(spec.PROPERTIES, to=to, **properties) + body
    (answer,) = delivered(client.say(client.transfer(request, 9, settled=True)))
    return decode_message(answer)


@pytest.fixture
def client() -> Amqp10Dialogue:
    found = Amqp10Dialogue().declare("q")
    found.declare("answers to me")
    found.attach_sender(None, 9)
    found.attach_receiver("/queues/answers%20to%20me", 2, credit=100)
    return found


def said(answer: DecodedMessage) -> Any:
    ((kind, body),) = answer.body
    assert kind == "data"
    assert isinstance(body, bytes)
    return json.loads(body)


@pytest.mark.parametrize("reply_to", ["/queues/answers%20to%20me", "answers to me"])
@pytest.mark.parametrize(
    "body", [data_section(WHY), encode_value(Described(ulong(spec.AMQP_VALUE), WHY.decode()))], ids=["data", "text"]
)
def test_answer_goes_to_the_queue_that_the_request_names(client: Amqp10Dialogue, reply_to: str, body: bytes) -> None:
    answer = ask(client, body, reply_to=reply_to, correlation_id="c")
    assert said(answer)["queue"] == "q"
    assert answer.properties["correlation_id"] == "c"


def test_answer_has_the_message_id_where_the_request_has_no_correlation_id(client: Amqp10Dialogue) -> None:
    number = Typed("uuid", bytes(range(16)))
    answer = ask(client, data_section(WHY), reply_to="/queues/answers%20to%20me", message_id=number)
    assert answer.properties["correlation_id"] == number


def test_answer_goes_to_a_dynamic_node(client: Amqp10Dialogue) -> None:
    source = composite(spec.SOURCE, dynamic=True)
    (attach, *_) = client.attach_receiver(None, 3, credit=1, source=source)
    found = attach.performative.inner("source")
    answer = ask(client, data_section(b"{}"), "status", reply_to=found.text("address"))
    assert said(answer)["version"] == "0"


def test_block_of_messages_goes_to_a_dynamic_node(client: Amqp10Dialogue) -> None:
    source = composite(spec.SOURCE, dynamic=True)
    (attach, *_) = client.attach_receiver(None, 3, credit=9, source=source)
    found = attach.performative.inner("source")
    assert isinstance(found, Composite)
    queue = client.vhost.queues["q"]
    for number in range(9):
        queue.enqueue(Envelope("", "q"), make_content(Properties(), bytes([number]) * 12_000), 12_240, 0.0)
    attached = json.dumps({"cursor": "c", "queues": ["q"]}).encode()
    request = json.dumps({"cursor": "c", "token": 1, "queue": "q", "lo": 0, "hi": 9}).encode()
    ask(client, data_section(attached), "cursor.attach", reply_to=found.text("address"))
    properties = encode(spec.PROPERTIES, to="/exchanges/penstock.control/cursor.range", reply_to=found.text("address"))
    heard = client.say(client.transfer(properties + data_section(request), 9, settled=True))
    ((kind, block),) = decode_message(b"".join(delivered(heard))).body
    assert kind == "data"
    assert isinstance(block, bytes)
    assert b"".join(bytes([number]) * 12_000 for number in range(9)) in block
    more = [bool(each.field("more")) for each in transfers(heard, 3)]
    assert more == [True] * (len(more) - 1) + [False]
    assert len(more) > 2


def test_error_is_an_answer(client: Amqp10Dialogue) -> None:
    answer = ask(client, data_section(b"{}"), "no-such", reply_to="answers to me", correlation_id="c")
    assert said(answer)["code"] == 404
    assert str(answer.properties["content_type"]) == "application/vnd.penstock.error+json"


def test_request_on_a_link_to_the_operation_is_accepted(client: Amqp10Dialogue) -> None:
    client.attach_sender("/exchanges/penstock.control/why", 10)
    heard = client.say(client.transfer(data_section(WHY), 10))
    (outcome,) = [each for each in heard if each.name == "disposition"]
    state = outcome.performative.inner("state")
    assert state.name == "accepted"
