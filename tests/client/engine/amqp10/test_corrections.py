"""Corrections of messages that RabbitMQ up to 3.13 sends malformed."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.engine.amqp10.corrections import corrected
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.composite import encode
from penstock.wire.amqp10.values import CodecError, Symbol
from tests.client.engine.amqp10.test_messages import delivery_of
from tests.support.amqp10_strategies import section

FRESH = encode(spec.HEADER, first_acquirer=True)
BODY = section(spec.DATA, b"one")


@pytest.mark.parametrize("long", [3, 250])
def test_keys_of_annotations_and_the_user_may_be_strings(long: int) -> None:
    key, user = "x-" + "k" * long, "u" * long
    wrong = {key: "v", "x-routing-key": "r", Symbol("x-rest"): {"a": [Symbol("b"), "c"]}}
    right = {Symbol(str(key)): value for key, value in wrong.items()}
    by_name = encode(spec.PROPERTIES, message_id="m", user_id=user.encode(), to="t")
    at = by_name.index(user.encode()) - 2
    as_sent = by_name[:at] + b"\xa1" + by_name[at + 1 :]
    sent = FRESH + section(spec.MESSAGE_ANNOTATIONS, wrong) + as_sent + BODY
    assert corrected(sent) == FRESH + section(spec.MESSAGE_ANNOTATIONS, right) + by_name + BODY
    found = delivery_of(corrected(sent))
    assert (found.properties.user_id, found.properties.message_id, found.body) == (user, "m", b"one")
    assert found.routing_key == "r"
    assert found.properties.headers[key] == "v"


@pytest.mark.parametrize(
    "properties",
    [section(spec.PROPERTIES, []), section(spec.PROPERTIES, ["m"]), section(spec.PROPERTIES, ["m", None])],
)
def test_correction_leaves_valid_messages_unchanged(properties: bytes) -> None:
    message = FRESH + section(spec.MESSAGE_ANNOTATIONS, {}) + properties + BODY
    assert corrected(message) == message
    assert delivery_of(message).body == b"one"


@given(st.data())
def test_correction_of_a_malformed_message_raises_codec_errors_only(data: st.DataObject) -> None:
    whole = FRESH + section(spec.MESSAGE_ANNOTATIONS, {"x-a": [1]}) + encode(spec.PROPERTIES, user_id=b"u") + BODY
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + data.draw(st.binary(max_size=3)) + whole[at + data.draw(st.integers(0, 3)) :]
    with suppress(CodecError):
        delivery_of(corrected(changed))
