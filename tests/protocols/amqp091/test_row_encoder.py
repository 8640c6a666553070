"""Rows of blocks as contents: the same as properties that are encoded one by one, and well formed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import PreconditionFailed
from penstock.flow.level import OVERHEAD
from penstock.protocols.amqp091.content_frames import FRAME_PAYLOAD_MAX, header_end
from penstock.protocols.amqp091.message_format import Amqp091Format
from penstock.protocols.amqp091.row_encoder import COPIED_OCTETS, Amqp091RowEncoder
from penstock.ranges.incoming import IncomingBlock
from penstock.wire.amqp091.content_header import FLAGS_AT, property_flags
from tests.profiles import examples
from tests.support.block_encoder import encode_published

FORMAT = Amqp091Format()
short = st.none() | st.text(max_size=20)
row = st.fixed_dictionaries(
    {"value": st.binary(max_size=50)},
    optional={
        **dict.fromkeys(
            (
                "message_id",
                "correlation_id",
                "reply_to",
                "content_type",
                "content_encoding",
                "type",
                "app_id",
                "user_id",
            ),
            short,
        ),
        "priority": st.none() | st.integers(0, 255),
        "delivery_mode": st.none() | st.integers(0, 255),
        "message_timestamp": st.none() | st.integers(-(2**63), 2**63 - 1),
        "headers": st.none() | st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=3),
        "headers_json": st.sampled_from([None, "{}", '{"a":[1,2.5,null,{"b":"c"}]}']),
    },
)


@settings(max_examples=examples(400))
@given(rows=st.lists(row, min_size=1, max_size=6))
def test_rows_are_encoded_as_properties_are(rows: list[dict[str, Any]]) -> None:
    block = IncomingBlock(encode_published(rows))
    encoder = Amqp091RowEncoder(block.columns)
    for at, given_row in enumerate(rows):
        content = encoder.encode(at)
        assert content == FORMAT.encode(block.columns.properties(at), given_row["value"])
        assert encoder.charge == FORMAT.charge(content) + OVERHEAD
        assert property_flags(content, FLAGS_AT, header_end(content) - 1) >= 0


@pytest.mark.parametrize(
    "size",
    [0, 1, COPIED_OCTETS, COPIED_OCTETS + 1, FRAME_PAYLOAD_MAX, FRAME_PAYLOAD_MAX + 1, 3 * FRAME_PAYLOAD_MAX + 5],
)
def test_bodies_of_all_sizes_are_framed(size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    block = IncomingBlock(encode_published([{"value": body[:size]}], {"delivery_mode": 2, "message_id": "m"}))
    content = Amqp091RowEncoder(block.columns).encode(0)
    assert content == FORMAT.encode(block.columns.properties(0), body[:size])


def test_properties_that_no_frame_holds_are_refused() -> None:
    rows = [{"value": b"", "headers": [("k", bytes(FRAME_PAYLOAD_MAX))]}]
    block = IncomingBlock(encode_published(rows))
    with pytest.raises(PreconditionFailed, match="row 0 has properties of"):
        Amqp091RowEncoder(block.columns).encode(0)
