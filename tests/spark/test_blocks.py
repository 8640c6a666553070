"""Decoded blocks: columns, nulls, and damaged blocks."""

import datetime
import json
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_penstock.blocks import Decoder, decode
from pyspark_penstock.errors import BlockError
from pyspark_penstock.schema import DEFAULT_COLUMNS, SOURCE_COLUMNS, arrow_schema
from tests.support.block_encoder import encode

FIRST_OF_MAY = datetime.datetime(2026, 5, 1, 12, 0, 0, 123456, tzinfo=datetime.UTC)


def row(sequence, value=b"hello", **others):
    when = int(FIRST_OF_MAY.timestamp()) * 1_000_000 + 123456
    return {"sequence": sequence, "timestamp": when, "value": value, "exchange": "", "routing_key": "orders", **others}


def test_columns_of_a_block_arrive_for_each_message():
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


def test_repeated_column_of_equal_blocks_is_made_once():
    decoder = Decoder(DEFAULT_COLUMNS)

    def block(rows, **others):
        names = ("routing_key", "priority", "redelivered")
        return decoder.decode(encode("q", [row(n, **others) for n in range(1, rows + 1)], constants=names)).batch

    first, second = block(100), block(100)
    for name in ("queue", "routing_key"):
        assert first.column(name).buffers()[2].address == second.column(name).buffers()[2].address
    assert second.equals(first)
    assert block(7).column("routing_key").to_pylist() == ["orders"] * 7
    assert block(7, routing_key="audit").column("routing_key").to_pylist() == ["audit"] * 7
    assert block(7, priority=3).column("priority").to_pylist() == [3] * 7
    assert block(7).column("priority").to_pylist() == [None] * 7
    assert first.column("routing_key").to_pylist() == ["orders"] * 100


def test_schema_is_exactly_the_declared_one():
    batch = decode(encode("q", [row(1)], constants=("priority", "timestamp"))).batch
    assert batch.schema.equals(arrow_schema(), check_metadata=True)
    assert [column.type for column in batch.columns] == arrow_schema().types
    texts = [name for name in SOURCE_COLUMNS if SOURCE_COLUMNS[name] == "string"]
    one = {**row(1), **dict.fromkeys(texts, "x"), "headers": [("k", b"v")]}
    body = encode("q", [one, one], constants=("type",), more=("headers", *texts[8:]))
    names = (*DEFAULT_COLUMNS, "headers", "headers_json", "type", "app_id", "user_id", "content_encoding")
    assert decode(body, names).batch.schema.equals(arrow_schema(names), check_metadata=True)


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


COLUMNS = ("headers", "type", "value")
PAIRS = [("a", b"1"), ("b", None)]


def with_headers():
    rows = [row(1, headers=PAIRS), row(2), row(3, headers=[]), row(4, headers=[("ü", b"\xff")], type="t")]
    return encode("q", rows, more=("headers", "type"))


def test_headers_are_lists_of_key_and_value():
    batch = decode(with_headers(), COLUMNS).batch
    assert batch.schema.names == list(COLUMNS)
    assert batch.column("headers").to_pylist() == [
        [{"key": "a", "value": b"1"}, {"key": "b", "value": None}],
        None,
        [],
        [{"key": "ü", "value": b"\xff"}],
    ]
    assert batch.column("type").to_pylist() == [None, None, None, "t"]


def test_columns_come_in_the_order_asked_for():
    body = encode("q", [row(5, b"x")])
    assert decode(body, ("value", "queue", "sequence")).batch.to_pylist() == [
        {"value": b"x", "queue": "q", "sequence": 5}
    ]


def test_block_of_several_ranges_has_the_queue_of_each_row():
    header = {"rows": 3, "ranges": [["q", 2, 5], ["none", 0, 9], ["r", 1, 8]], "columns": {"priority": {"all": 4}}}
    text = json.dumps(header).encode()
    block = decode(b"PSB1" + struct.pack("<I", len(text)) + text, ("queue", "priority"))
    assert [row["queue"] for row in block.batch.to_pylist()] == ["q", "q", "r"]
    assert [(read.queue, read.rows, read.reached) for read in block.reads] == [("q", 2, 5), ("none", 0, 9), ("r", 1, 8)]


def ranges_of(*ranges):
    rows = sum(count for _, count, _ in ranges)
    text = json.dumps({"rows": rows, "ranges": ranges, "columns": {"priority": {"all": 4}}}).encode()
    return decode(b"PSB1" + struct.pack("<I", len(text)) + text, ("queue", "priority")).batch


def test_queue_of_ranges_is_repeated_for_one_queue_or_none():
    assert ranges_of(["q", 3, 5]).column("queue").to_pylist() == ["q"] * 3
    assert ranges_of(["none", 0, 9], ["q", 2, 5], ["q", 1, 8]).column("queue").to_pylist() == ["q"] * 3
    assert ranges_of(["none", 0, 9]).num_rows == 0
    batch = ranges_of(["q", 1, 5], ["r", 2, 8], ["q", 1, 9])
    assert batch.column("queue").to_pylist() == ["q", "r", "r", "q"]
    batch.validate(full=True)


def test_column_that_the_broker_does_not_have_is_named():
    with pytest.raises(BlockError, match="no column headers: it is older"):
        decode(encode("q", [row(1)]), ("value", "headers"))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": -1},
        {"rows": 10**9},
        {"rows": True},
        {"rows": 2.0},
        {"last": 1 << 70},
        {"columns": [1]},
        {"ranges": []},
        {"ranges": {"q": 1}},
        {"ranges": [["q", 1]]},
        {"ranges": [["q", 2, 5]]},
        {"ranges": [["q", -1, 5], ["r", 2, 5]]},
        {"ranges": [[7, 1, 5]]},
        {"ranges": [["q", 1, 1 << 70]]},
        {"ranges": [["x" * 1_000, 900_000, 5]], "rows": 900_000},
        {"columns": {name: {"all": "x" * 10_000} for name in COLUMNS}, "rows": 900_000},
        {"columns": {name: {"all": 1 << 80} for name in COLUMNS}},
        {"columns": {"headers": {"offsets": [0, 64], "items": {"rows": 1 << 40, "columns": {}}}}},
    ],
)
def test_header_with_impossible_numbers_is_refused(change):
    header = {"rows": 1, "last": 1, "queue": "q", "columns": {name: {"all": None} for name in COLUMNS}}
    text = json.dumps({**header, **change}).encode()
    with pytest.raises(BlockError, match=r"malformed|no column"):
        decode(b"PSB1" + struct.pack("<I", len(text)) + text, COLUMNS)


def test_header_that_nests_too_deep_is_refused():
    text = b"[" * 200_000
    with pytest.raises(BlockError, match="not JSON"):
        decode(b"PSB1" + struct.pack("<I", len(text)) + text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["all", "data", "offsets", "valid", "items", "rows", "columns"]), inner)
    ),
    max_leaves=6,
)
PATHS = (
    ("rows",),
    ("headers", "offsets"),
    ("headers", "valid"),
    ("headers", "items"),
    ("headers", "items", "rows"),
    ("headers", "items", "columns", "key", "offsets"),
    ("headers", "items", "columns", "key", "data"),
    ("headers", "items", "columns", "value", "valid"),
    ("headers", "items", "columns", "value"),
    ("type", "data"),
    ("value", "offsets"),
    ("value",),
)


@given(st.sampled_from(PATHS), JSON | st.tuples(st.integers(-9, 3000), st.integers(-9, 3000)).map(list))
def test_damaged_block_header_raises_an_error_or_gives_rows_of_the_block(path, value):
    body = with_headers()
    (length,) = struct.unpack("<I", body[4:8])
    header = json.loads(body[8 : 8 + length])
    place = header if path[0] == "rows" else header["columns"]
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    text = json.dumps(header).encode()
    # Buffers stay where they are: a longer header gives up what it has no room for.
    changed = (body[:4] + struct.pack("<I", len(text)) + text).ljust(8 + length, b" ") + body[8 + length :]
    check(changed)


@given(st.binary(min_size=1, max_size=4), st.floats(0, 1, exclude_max=True))
def test_damaged_block_buffer_raises_an_error_or_gives_rows_of_the_block(damage, where):
    body = bytearray(with_headers())
    at = 8 + int.from_bytes(body[4:8], "little")
    at += int(where * (len(body) - at))
    body[at : at + len(damage)] = damage
    check(bytes(body))


def check(body):
    try:
        batch = decode(body, COLUMNS).batch
    except BlockError:
        return
    batch.validate(full=True)
    for column in batch.columns:
        column.to_pylist()
