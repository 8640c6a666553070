"""Passwords in files: read at each login by source, sink, batch read and listener, and never shown."""

import logging
import pickle
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from penstock.access.password_hash import hash_password
from pyspark_amqp.options import amqp_options
from pyspark_amqp.spool.errors import SpoolError
from pyspark_penstock.batch import PenstockBatchReader
from pyspark_penstock.batch_options import batch_options
from pyspark_penstock.connections import connect
from pyspark_penstock.errors import BrokerUnreachable, OptionError, PublishFailed
from pyspark_penstock.listener import ProgressListener
from pyspark_penstock.options import sink_options, source_options
from pyspark_penstock.password_file import OCTETS_MAX, read_password
from pyspark_penstock.publish import Sender
from pyspark_penstock.source import TABLE_OPTIONS, table_comment, with_table_options
from tests.spark.conftest import until
from tests.support.spark_readers import ALL, bodies, numbered, values
from tests.support.tcp_proxy import proxied


def declare_user(broker, password: str) -> None:
    hashed = hash_password(password, b"salt of the test").text()
    broker.control("user.declare", name="etl", password_hash=hashed, tags=[])
    broker.control("permission.set", user="etl", vhost="/", configure=".*", write=".*", read=".*")


@pytest.fixture
def file(broker, tmp_path: Path) -> Path:
    """The password of the user etl, in a file."""
    declare_user(broker, "first secret")
    path = tmp_path / "password"
    path.write_text("first secret\n")
    return path


@pytest.fixture
def login(broker, file: Path) -> dict[str, str]:
    return {"servers": broker.address, "user": "etl", "passwordFile": str(file)}


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array([b"%d" % number for number in numbers], pa.binary())})


def test_source_sink_and_batch_log_in_by_the_file(broker, queue, login, open_reader):
    assert Sender(sink_options({"queue": queue, **login})).send(iter([rows(0, 1, 2)])) == 3
    reader = open_reader(broker, subscribe=queue, cursor=f"app-{queue}", **login)
    start = reader.initialOffset()
    assert bodies(reader, start, reader.latestOffset(start, ALL)) == numbered(3)
    batch = PenstockBatchReader(batch_options({"subscribe": queue, **login}))
    assert values(batch, batch.partitions()) == numbered(3)


def test_renewed_file_is_read_at_the_next_login(broker, queue, file, login, open_reader):
    with proxied(broker.address) as proxy:
        given = {**login, "servers": proxy.address, "onServerLoss": "fail", "fetchOffset.numRetries": "1"}
        reader = open_reader(broker, subscribe=queue, cursor=f"app-{queue}", **given)
        start = reader.initialOffset()
        declare_user(broker, "second secret")
        file.write_text("second secret")
        proxy.cut()
        broker.publish(queue, numbered(5))
        assert bodies(reader, start, reader.latestOffset(start, ALL)) == numbered(5)
        file.write_text("first secret")
        proxy.cut()
        with pytest.raises(BrokerUnreachable, match="cannot connect") as refusal:
            reader.latestOffset(start, ALL)
    assert "secret" not in str(refusal.value)


def test_open_connection_reads_the_file_again_to_renew_a_token(broker, file, login):
    options = sink_options({"queue": "any", **login})
    connection = connect(options.access, options.access.servers[0])
    try:
        assert callable(connection.options.token)
        file.write_text("renewed")
        assert connection.options.secret() == "renewed"
    finally:
        connection.close()


@pytest.mark.parametrize("missing", [True, False])
def test_file_that_cannot_be_used_ends_reader_and_task_at_once(broker, queue, file, login, open_reader, missing):
    if missing:
        file.unlink()
    else:
        file.write_text("two\nlines\n")
    sentence = "cannot be read: No such file" if missing else "has several lines; it must have one line"
    reader = open_reader(broker, subscribe=queue, cursor=f"app-{queue}", **login)
    with pytest.raises(BrokerUnreachable, match=sentence):
        reader.initialOffset()
    with pytest.raises(PublishFailed, match=sentence):
        Sender(sink_options({"queue": queue, **login})).send(iter([rows(0)]))


def test_file_that_is_away_while_the_query_runs_is_waited_for(broker, queue, file, login, open_reader, caplog):
    with proxied(broker.address) as proxy:
        given = {**login, "servers": proxy.address, "fetchOffset.retryIntervalMs": "10"}
        reader = open_reader(broker, subscribe=queue, cursor=f"app-{queue}", **given)
        start = reader.initialOffset()
        assert reader.latestOffset(start, ALL) == start
        file.rename(file.with_suffix(".old"))
        broker.publish(queue, numbered(2))
        proxy.cut()
        assert reader.latestOffset(start, ALL) == start
        assert "cannot be read: No such file" in caplog.text
        file.with_suffix(".old").rename(file)
        found = []
        until(lambda: found.append(reader.latestOffset(start, ALL)) or found[-1] != start, "the file is read again")
        assert bodies(reader, start, found[-1]) == numbered(2)


@pytest.mark.parametrize(
    ("octets", "sentence"),
    [
        (b"", "has no text; it must have one line"),
        (b"\n", "has no text; it must have one line"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"x" * (OCTETS_MAX + 1), "has more than 65,536 bytes"),
        (b"hunter2\nhunter3", "has several lines"),
    ],
)
def test_file_that_is_no_password_is_refused_without_its_text(tmp_path, octets, sentence):
    path = tmp_path / "password"
    path.write_bytes(octets)
    with pytest.raises(ValueError, match=f"^the password file '{path}' {sentence}") as refusal:
        read_password(str(path))
    assert "hunter" not in str(refusal.value)


@pytest.mark.parametrize("octets", [b" p\xc3\xa4ss ", b" p\xc3\xa4ss \n", b" p\xc3\xa4ss \r\n"])
def test_password_is_the_unchanged_line(tmp_path, octets):
    path = tmp_path / "password"
    path.write_bytes(octets)
    assert read_password(str(path)) == " päss "


def test_password_in_the_file_is_in_no_object_that_travels_and_in_no_log(
    broker, queue, file, login, open_reader, caplog
):
    with caplog.at_level(logging.DEBUG):
        reader = open_reader(broker, subscribe=queue, cursor=f"app-{queue}", **login)
        reader.initialOffset()
        Sender(sink_options({"queue": queue, **login})).send(iter([rows(0)]))
        options = [
            reader._options,
            sink_options({"queue": queue, **login}),
            batch_options({"subscribe": queue, **login}),
        ]
    listener = ProgressListener(broker.address, user="etl", password_file=str(file))
    for each in (*options, reader, listener):
        assert b"first secret" not in pickle.dumps(each)
        assert "first secret" not in repr(each)
    assert "first secret" not in caplog.text


def test_table_stores_its_path_and_is_read_by_path(broker, queue, file, login):
    given = {"provider": "penstock", "subscribe": queue, "option.subscribe": queue, **login}
    comment = table_comment(given, TABLE_OPTIONS)
    assert str(file) in comment
    assert "first secret" not in comment
    field = StructField("queue", StringType(), True, {"comment": comment})
    options = batch_options(with_table_options({}, StructType([field]), TABLE_OPTIONS))
    batch = PenstockBatchReader(options)
    assert values(batch, batch.partitions()) == []


@pytest.mark.parametrize(
    "parsed",
    [
        lambda given: source_options({"subscribe": "q", "cursor": "c", **given}),
        lambda given: sink_options({"queue": "q", **given}),
        lambda given: batch_options({"subscribe": "q", **given}),
        lambda given: amqp_options({"subscribe": "q", "spool": "/data/spool", **given}),
    ],
)
def test_password_and_a_file_with_one_exclude_each_other(parsed):
    with pytest.raises(OptionError, match="options password and passwordFile exclude each other") as refusal:
        parsed({"password": "hunter2", "passwordFile": "/run/secrets/p"})
    assert "hunter2" not in str(refusal.value)


def test_spool_reads_the_file_at_each_connection(tmp_path):
    path = tmp_path / "password"
    options = amqp_options({"subscribe": "q", "spool": "/data/spool", "passwordFile": str(path)})
    assert str(path) in repr(options)
    token = options.settings.connection(("127.0.0.1", 5672))["token"]
    for password in ("one", "two"):
        path.write_text(password)
        assert token() == password
    path.unlink()
    with pytest.raises(SpoolError, match="cannot be read: No such file"):
        token()
