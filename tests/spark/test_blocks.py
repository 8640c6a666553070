import datetime
import json
import struct

import pyarrow as pa
import pytest

from pyspark_penstock.blocks import decode
from pyspark_penstock.errors import BlockError
from pyspark_penstock.schema import arrow_schema
from tests.support.block_encoder import encode

FIRST_OF_MAY = datetime.datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=datetime.UTC)


def row(sequence, value=b"hello", **others):
    when = int(FIRST_OF_MAY.timestamp()) * 1_000_000 + 123456
    return {"sequence": sequence, "timestamp": when, "value": value, "exchange": "", "routing_key": "orders", **others}


def test_every_column_of_every_message_arrives():
    rows = [
        row(7, b"one", message_id="m7", correlation_id="c", reply_to="r", content_type="text/plain", priority=4),
        row(9, b"", exchange="topics", routing_key="a.b"),
        row(10, b"\x00\xff" * 500, message_id="é"),
    ]
    block = decode(encode("orders", rows))
    assert (block.rows, block.last) == (3, 10)
    assert block.batch.to_pylist()[0] == {
        "queue": "orders",
        "sequence": 7,
        "timestamp": FIRST_OF_MAY,
        "exchange": "",
        "routing_key": "orders",
        "message_id": "m7",
        "correlation_id": "c",
        "reply_to": "r",
        "content_type": "text/plain",
        "priority": 4,
        "redelivered": False,
        "expiration": None,
        "value": b"one",
    }
    assert block.batch.column("value").to_pylist() == [b"one", b"", b"\x00\xff" * 500]
    assert block.batch.column("message_id").to_pylist() == ["m7", None, "é"]
    assert block.batch.column("priority").to_pylist() == [4, None, None]
    assert block.batch.column("sequence").to_pylist() == [7, 9, 10]


def test_columns_sent_once_for_all_rows_are_repeated():
    block = decode(encode("q", [row(n) for n in range(1, 101)], constants=("exchange", "routing_key", "message_id")))
    assert block.batch.column("routing_key").to_pylist() == ["orders"] * 100
    assert block.batch.column("message_id").null_count == 100


def test_schema_is_exactly_the_declared_one():
    batch = decode(encode("q", [row(1)], constants=("priority", "timestamp"))).batch
    assert batch.schema.equals(arrow_schema(), check_metadata=True)
    assert [column.type for column in batch.columns] == arrow_schema().types


def test_values_are_not_copied():
    body = encode("q", [row(n, b"x" * 1000) for n in range(1, 51)])
    before = pa.total_allocated_bytes()
    batch = decode(body).batch
    whole = pa.py_buffer(body)
    address = batch.column("value").buffers()[2].address
    assert whole.address <= address < whole.address + whole.size
    assert pa.total_allocated_bytes() - before < 50_000


@pytest.mark.parametrize("cut", [0, 3, 8, 40, 300])
def test_block_cut_short_is_refused(cut):
    with pytest.raises(BlockError, match="block"):
        decode(encode("q", [row(1)])[:cut])


def test_another_magic_is_refused():
    with pytest.raises(BlockError, match="does not begin with"):
        decode(b"PSB2" + encode("q", [row(1)])[4:])


def damaged(column, change):
    body = encode("q", [row(n) for n in range(1, 9)])
    (length,) = struct.unpack("<I", body[4:8])
    header = json.loads(body[8 : 8 + length])
    header["columns"][column] = change(header["columns"][column])
    text = json.dumps(header, separators=(",", ":")).encode().ljust(length)
    assert len(text) == length
    return body[:8] + text + body[8 + length :]


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("value", lambda column: {**column, "data": [column["data"][0], 3]}),
        ("value", lambda column: {**column, "data": [10**9, 40]}),
        ("value", lambda column: {**column, "offsets": [-8, 36]}),
        ("sequence", lambda column: {"data": [column["data"][0], 63]}),
        ("sequence", lambda column: {"data": "far"}),
        ("sequence", lambda column: {}),
        ("sequence", lambda column: {"all": "one"}),
    ],
)
def test_buffer_outside_the_block_or_too_short_is_refused(column, change):
    with pytest.raises(BlockError, match="malformed"):
        decode(damaged(column, change))


def test_offsets_that_run_backwards_are_refused():
    body = bytearray(encode("q", [row(n) for n in range(1, 9)]))
    (length,) = struct.unpack("<I", body[4:8])
    start, _ = json.loads(body[8 : 8 + length])["columns"]["value"]["offsets"]
    body[start + 8 : start + 12] = struct.pack("<i", 10**6)
    with pytest.raises(BlockError, match="malformed"):
        decode(bytes(body))
