"""Messages with odd properties: an unreadable property loses only itself, and a very large one has a sentence."""

import json
from collections.abc import Iterator

import pika
import pyarrow as pa
import pytest

from penstock.client.engine.messages import Message
from penstock.sync import connect
from pyspark_penstock import unreadable
from pyspark_penstock.batch import PenstockBatchReader
from pyspark_penstock.batch_options import batch_options
from pyspark_penstock.errors import PublishFailed
from pyspark_penstock.options import sink_options
from pyspark_penstock.publish import Sender
from tests.support.spark_readers import batches

HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


class OddProperties(pika.BasicProperties):
    """Properties with octets that are not UTF-8, which no library sends by itself."""

    def encode(self) -> list[bytes]:
        return [piece.replace(b"wrong-", b"wr\xffng-") for piece in super().encode()]


def read(broker, queue: str) -> list[dict]:
    reader = PenstockBatchReader(batch_options({"servers": broker.address, "subscribe": queue, "columns": "all"}))
    return [row for batch in batches(reader, reader.partitions()) for row in batch.to_pylist()]


@pytest.fixture(autouse=True)
def forgets_warnings() -> Iterator[None]:
    unreadable._warned.clear()
    yield
    unreadable._warned.clear()


def test_header_name_and_id_that_are_not_utf_8_take_only_themselves_away(broker, queue, caplog):
    with broker.connect() as connection:
        channel = connection.channel()
        for number in range(4):
            kind = OddProperties if number in (1, 2) else pika.BasicProperties
            properties = kind(
                headers={"first": number, "wrong-name": 1, "table": {"wrong-too": 1, "kept": 2}, "last": "x"},
                message_id="wrong-id",
                app_id="app",
            )
            channel.basic_publish("", queue, b"%d" % number, properties)
    for _ in range(2):
        rows = read(broker, queue)
        assert [row["value"] for row in rows] == [b"0", b"1", b"2", b"3"]
        assert [row["message_id"] for row in rows] == ["wrong-id", None, None, "wrong-id"]
        assert {row["app_id"] for row in rows} == {"app"}
        whole = {"wrong-name": 1, "table": {"wrong-too": 1, "kept": 2}, "last": "x"}
        left = {"table": {"kept": 2}, "last": "x"}
        expected = [{"first": number, **(left if number in (1, 2) else whole)} for number in range(4)]
        assert [json.loads(row["headers_json"]) for row in rows] == expected
        assert [[item["key"] for item in row["headers"]] for row in rows] == [list(each) for each in expected]
    lines = sorted(each.getMessage() for each in caplog.records if "left out" in each.getMessage())
    assert lines == [
        f"penstock: message 2 of queue '{queue}' at {broker.address} has a header whose name is not UTF-8, which is "
        "left out; the others are read (2 of 4 messages here)",
        f"penstock: message 2 of queue '{queue}' at {broker.address} has a message_id that cannot be read or is not "
        "UTF-8, which is left out; the others are read (2 of 4 messages here)",
    ]


@pytest.mark.parametrize("column", ["headers", "headers_json"])
def test_ten_thousand_headers_pass_from_sink_to_source(broker, queue, column):
    names = [f"h{number}" for number in range(10_000)]
    given = {
        "headers": pa.array([[{"key": name, "value": b"v"} for name in names]], HEADERS),
        "headers_json": pa.array([json.dumps(dict.fromkeys(names, "v"))]),
    }
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"x"], pa.binary()), column: given[column]})
    assert Sender(sink_options({"servers": broker.address, "queue": queue})).send(iter([batch])) == 1
    (row,) = read(broker, queue)
    assert [item["key"] for item in row["headers"]] == names
    assert len(json.loads(row["headers_json"])) == 10_000


@pytest.mark.parametrize("octets", [1 << 20, 20 << 20])
def test_headers_beyond_a_frame_fail_the_task_with_row_and_size(broker, queue, octets):
    headers = pa.array([[{"key": "big", "value": b"a" * octets}]], HEADERS)
    batch = pa.RecordBatch.from_pydict({"value": pa.array([b"x"], pa.binary()), "headers": headers})
    with pytest.raises(
        PublishFailed, match=r"did not take row 0 of the task: .*properties of .* bytes, but a frame holds"
    ):
        Sender(sink_options({"servers": broker.address, "queue": queue})).send(iter([batch]))
    assert broker.depth(queue) == 0


def test_headers_of_1_mib_by_amqp_1_0_are_read(broker, queue):
    url = f"amqp://guest:guest@{broker.address}"
    with connect(url, protocol="amqp10") as connection, connection.publisher(queue) as publisher:
        publisher.send(Message(b"x", headers={"big": "a" * (1 << 20), "small": 1}))
    (row,) = read(broker, queue)
    assert {item["key"]: len(item["value"]) for item in row["headers"]} == {"big": 1 << 20, "small": 1}
