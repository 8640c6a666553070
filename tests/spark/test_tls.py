"""Sources and sink by TLS, without a JVM, against a broker that serves it."""

import pickle
from collections.abc import Iterator

import pika
import pyarrow as pa
import pytest

from pyspark_amqp.options import amqp_options
from pyspark_amqp.reader import AmqpStreamReader
from pyspark_penstock.batch import PenstockBatchReader
from pyspark_penstock.batch_options import batch_options
from pyspark_penstock.errors import BrokerUnreachable, OptionError, PublishFailed
from pyspark_penstock.listener import ProgressListener
from pyspark_penstock.options import sink_options, source_options
from pyspark_penstock.publish import Sender
from pyspark_penstock.reader import PenstockStreamReader
from pyspark_penstock.tls import Tls, servers
from tests.spark.amqp.conftest import read_until
from tests.spark.conftest import close_links
from tests.support.brokers import BrokerProcess, some_name
from tests.support.certificates import Authority, serving_tls
from tests.support.spark_readers import ALL, bodies

SENT = [b"%d" % number for number in range(100)]


@pytest.fixture(scope="module")
def broker(authority: Authority) -> Iterator[BrokerProcess]:
    with serving_tls(authority.folder) as process:
        yield process
        close_links()


@pytest.fixture
def by_tls(broker: BrokerProcess, authority: Authority) -> dict[str, str]:
    return {
        "servers": f"amqps://localhost:{broker.tls_port}",
        "tlsCaFile": str(authority.ca),
        "tlsCertificateFile": str(authority.folder / "client.pem"),
        "tlsKeyFile": str(authority.key("client")),
    }


@pytest.fixture
def queue(broker: BrokerProcess) -> str:
    name = some_name("q")
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        connection.channel().queue_declare(name)
    return name


def sent() -> Iterator[pa.RecordBatch]:
    yield pa.RecordBatch.from_pydict({"value": pa.array(SENT, pa.binary())})


def test_sink_writes_and_source_reads_by_tls(by_tls: dict[str, str], queue: str) -> None:
    options = pickle.loads(pickle.dumps(sink_options({**by_tls, "queue": queue})))
    assert Sender(options).send(sent()) == len(SENT)
    reader = PenstockStreamReader(source_options({**by_tls, "subscribe": queue, "cursor": queue, "fetchWait": "0ms"}))
    try:
        start = reader.initialOffset()
        assert bodies(reader, start, reader.latestOffset(start, ALL)) == SENT
    finally:
        reader.stop()


def test_batch_reads_by_tls(by_tls: dict[str, str], queue: str) -> None:
    assert Sender(sink_options({**by_tls, "queue": queue})).send(sent()) == len(SENT)
    reader = PenstockBatchReader(batch_options({**by_tls, "subscribe": queue, "columns": "value"}))
    found = [
        value
        for each in reader.partitions()
        for batch in reader.read(each)
        for value in batch.column("value").to_pylist()
    ]
    assert found == SENT


def test_source_of_other_brokers_reads_by_tls(by_tls: dict[str, str], queue: str, tmp_path) -> None:
    assert Sender(sink_options({**by_tls, "queue": queue})).send(sent()) == len(SENT)
    given = {**by_tls, "subscribe": queue, "spool": str(tmp_path / "spool"), "fetchWait": "100ms"}
    reader = AmqpStreamReader(amqp_options(given))
    try:
        assert read_until(reader, reader.initialOffset(), len(SENT))[0] == SENT
    finally:
        reader.stop()


def test_untrusted_broker_and_missing_tls_files_are_reported(by_tls: dict[str, str], queue: str) -> None:
    given = {"queue": queue, "publishTimeout": "1s"}
    with pytest.raises((PublishFailed, BrokerUnreachable), match="its certificate is not trusted"):
        Sender(sink_options({"servers": by_tls["servers"], **given})).send(sent())
    with pytest.raises((PublishFailed, BrokerUnreachable), match="the file '/nowhere' for TLS is not there"):
        Sender(sink_options({"servers": by_tls["servers"], "tlsCaFile": "/nowhere", **given})).send(sent())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"servers": "amqps://a,b"}, "has addresses with amqps:// and without"),
        ({"tlsCaFile": "/ca"}, "option tlsCaFile needs servers that begin with amqps://"),
        ({"servers": "amqps://a", "tlsKeyFile": "/k"}, "need tlsCertificateFile"),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, str], said: str) -> None:
    for owner, options in ((source_options, {"subscribe": "q", "cursor": "c"}), (sink_options, {"queue": "q"})):
        with pytest.raises(OptionError, match=said):
            owner({**options, **given})


def test_servers_by_tls_have_the_port_of_amqps() -> None:
    found = servers("amqps://a, amqps://[::1]:5674/")
    assert ([str(each) for each in found.addresses], found.tls) == (["a:5671", "[::1]:5674"], True)
    assert "hush" not in repr(Tls(password="hush"))
    assert source_options({"subscribe": "q", "cursor": "c"}).access.tls is None


def test_listener_speaks_tls_where_its_servers_do() -> None:
    assert ProgressListener("amqps://a", tls=Tls("/ca"))._access.tls == Tls("/ca")
    assert ProgressListener("a")._access.tls is None
