"""Record batches as blocks to be published: every slice, and every place where nulls may be."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.ranges.incoming_block import IncomingBlock
from pyspark_penstock.block_encoder import encode_block, size_of
from pyspark_penstock.options import sink_options
from pyspark_penstock.rows import constants, message_columns
from tests.profiles import examples

HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
TYPES = {
    "value": pa.binary(),
    "message_id": pa.string(),
    "priority": pa.int32(),
    "message_timestamp": pa.int64(),
    "headers": HEADERS,
    "headers_json": pa.string(),
}
OPTIONS = sink_options({"queue": "q"})

row = st.fixed_dictionaries(
    {
        "value": st.binary(max_size=5),
        "message_id": st.none() | st.text(max_size=5),
        "priority": st.none() | st.integers(0, 255),
        "message_timestamp": st.none() | st.integers(-(2**63), 2**63 - 1),
        "headers": st.none()
        | st.dictionaries(st.text(max_size=3), st.none() | st.binary(max_size=3), max_size=3).map(
            lambda found: [{"key": key, "value": value} for key, value in found.items()]
        ),
        "headers_json": st.sampled_from([None, '{"a":1}']),
    }
)


def batch_of(rows):
    columns = {name: pa.array([each[name] for each in rows], kind) for name, kind in TYPES.items()}
    return pa.RecordBatch.from_pydict(columns)


def sent(batch, options=OPTIONS):
    """Return the columns as the broker reads them."""
    sent_rows = message_columns(batch, options)
    return IncomingBlock(encode_block(sent_rows, constants(sent_rows, options)))


@settings(max_examples=examples(300))
@given(rows=st.lists(row, min_size=1, max_size=20), data=st.data())
def test_broker_reads_the_rows_of_a_slice_of_a_batch(rows, data):
    first = data.draw(st.integers(0, len(rows) - 1))
    count = data.draw(st.integers(1, len(rows) - first))
    block = sent(batch_of(rows).slice(first, count))
    assert block.rows == count
    for at, given_row in enumerate(rows[first : first + count]):
        found = block.columns.properties(at)
        assert block.columns.body(at) == given_row["value"]
        assert (found.message_id, found.priority) == (given_row["message_id"], given_row["priority"])
        seconds = given_row["message_timestamp"]
        assert found.timestamp == (seconds + 2**64 if seconds is not None and seconds < 0 else seconds)
        assert found.delivery_mode == 2
        if given_row["headers_json"]:
            assert found.headers == {"a": 1}
        elif given_row["headers"] is None:
            assert found.headers is None
        else:
            assert {key: value for key, value in found.headers.items() if value is None} == {
                item["key"]: None for item in given_row["headers"] if item["value"] is None
            }
            assert list(found.headers) == [item["key"] for item in given_row["headers"]]


def test_values_of_the_types_of_spark_are_converted():
    batch = pa.RecordBatch.from_pydict(
        {
            "value": ["é", "b"],
            "priority": pa.array([1, 2], pa.int64()),
            "delivery_mode": pa.array([None, 1], pa.int8()),
            "message_id": pa.array(["x", None], pa.large_string()),
        }
    )
    block = sent(batch)
    first, second = block.columns.properties(0), block.columns.properties(1)
    assert block.columns.body(0) == "é".encode()
    assert (first.priority, first.delivery_mode, first.message_id) == (1, 2, "x")
    assert (second.priority, second.delivery_mode, second.message_id) == (2, 1, None)


def test_columns_about_the_origin_and_columns_without_a_value_are_not_sent():
    batch = pa.RecordBatch.from_pydict(
        {"value": [b"a"], "sequence": [1], "exchange": ["x"], "deaths": [3], "type": pa.array([None], pa.string())}
    )
    assert message_columns(batch, OPTIONS).schema.names == ["value"]


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ({"queue": "q"}, ["q", "q"]),
        ({"exchange": "x", "routingKey": "k"}, ["k", "k"]),
        ({"exchange": "x"}, ["a", None]),
    ],
)
def test_routing_key_is_the_options_or_the_columns(options, keys):
    batch = pa.RecordBatch.from_pydict({"value": [b"", b""], "routing_key": ["a", None]})
    block = sent(batch, sink_options(options))
    assert [block.columns.texts["routing_key"].text(at) for at in range(2)] == keys


def test_size_of_a_slice_is_that_of_its_rows():
    whole = batch_of([{**dict.fromkeys(TYPES), "value": bytes(1000)}] * 100)
    assert 900 * 10 < size_of(message_columns(whole.slice(50, 10), OPTIONS)) < 1100 * 10
