"""Contents that the broker makes, and reads back."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.protocols.amqp091.content_frames import body_of, header_payload, make_content, properties_of
from penstock.wire.amqp091.content_header import decode_properties


@pytest.mark.parametrize("length", [0, 1, 131072 - 8, 131072 - 7, 300_000])
def test_content_made_by_the_broker_is_read_back(length: int) -> None:
    made = Properties()
    made.correlation_id = "17"
    body = bytes(at % 251 for at in range(length))
    frames = make_content(made, body)
    assert body_of(frames) == body
    assert properties_of(frames).correlation_id == "17"
    assert decode_properties(header_payload(frames))[0] == length
