"""Options of the AMQP source: reading, defaults, and refusals."""

import json
import pickle

import pytest

from pyspark_amqp.options import amqp_options
from pyspark_amqp.reader import AmqpStreamReader
from pyspark_amqp.spool.settings import Settings, Tls
from pyspark_penstock.errors import OptionError
from pyspark_penstock.options import source_options
from pyspark_penstock.reader import PenstockStreamReader

LEAST = {"subscribe": "orders", "spool": "/data/spool"}


def test_smallest_source():
    options = amqp_options(LEAST)
    settings = options.settings
    assert settings.protocol == "amqp091"
    assert (settings.servers, settings.vhost, settings.queues) == ((("127.0.0.1", 5672),), "/", ("orders",))
    assert (settings.spool, settings.spool_octets, settings.prefetch) == ("/data/spool", 1 << 30, 10_000)
    assert (settings.acknowledge, settings.duplicates, settings.tls) == ("settled", "redelivered", None)
    assert (settings.heartbeat, settings.consumer_timeout) == (60, 1_800)
    assert pickle.loads(pickle.dumps(options)) == options
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings


def test_batches_have_the_defaults_of_the_source_penstock():
    here = amqp_options({**LEAST, "minOffsetsPerTrigger": "1"})
    there = source_options({"subscribe": "orders", "cursor": "app", "minOffsetsPerTrigger": "1"})
    shared = (
        "fail_on_data_loss", "max_rows", "max_bytes", "delay_ms", "min_partitions", "max_records_per_partition",
        "wait_ms",
    )  # fmt: skip
    assert {name: getattr(here, name) for name in shared} == {name: getattr(there, name) for name in shared}
    assert AmqpStreamReader(here).getDefaultReadLimit() == PenstockStreamReader(there).getDefaultReadLimit()


def test_options_of_the_amqp_source_are_all_read():
    options = amqp_options({
        "SERVERS": "amqps://a, amqps://[::1]:5674/", "protocol": "AMQP1", "vhost": "shop", "user": "u", "password": "p",
        "tlsCaFile": "/ca", "tlsCertificateFile": "/c", "tlsKeyFile": "/k", "tlsKeyPassword": "s",
        "subscribe": "orders, audit", "spool": "file:///data/my%20spool", "spoolBytes": "8m", "prefetch": "65535",
        "acknowledge": "spooled", "dropDuplicates": "messageId", "heartbeat": "1500ms", "consumerTimeout": "1h",
        "columns": "value", "failOnDataLoss": "false", "maxOffsetsPerTrigger": "5", "maxBytesPerTrigger": "1k",
        "minPartitions": "2", "maxRecordsPerPartition": "9", "fetchWait": "1s", "fetchOffset.numRetries": "0",
        "fetchOffset.retryIntervalMs": "10",
    })  # fmt: skip
    settings = options.settings
    assert settings.servers == (("a", 5671), ("::1", 5674))
    assert settings.protocol == "amqp1"
    assert settings.tls == Tls("/ca", "/c", "/k", "s")
    assert (settings.spool, settings.spool_octets, settings.queues) == ("/data/my spool", 8 << 20, ("orders", "audit"))
    assert (settings.acknowledge, settings.duplicates) == ("spooled", "messageId")
    assert (settings.heartbeat, settings.consumer_timeout, settings.retries) == (2, 3_600, 0)
    assert (options.columns, options.fail_on_data_loss, options.max_rows, options.max_bytes) == (
        ("value",), False, 5, 1_024,
    )  # fmt: skip
    assert Settings.from_json(json.loads(json.dumps(settings.to_json()))) == settings
    assert "'p'" not in repr(options)
    assert "'s'" not in repr(options)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"spoolbyte": "5"}, "the amqp source has no option 'spoolbyte'; did you mean spoolBytes?"),
        ({"cursor": "app"}, "has no option 'cursor': cursor is an option of the source penstock"),
        ({"startingOffsets": "latest"}, "of the source penstock: a queue of another broker has no past"),
        ({"spool": "spool"}, "option spool = 'spool' must be an absolute folder"),
        ({"spool": "s3://bucket/spool"}, "must be an absolute folder of a file system that the driver"),
        ({"spoolBytes": "1k"}, "spoolBytes must be bytes from 1048576 \\(such as 64MiB\\), not '1k'"),
        ({"prefetch": "70000"}, "prefetch must be a whole number from 1 to 65535, not '70000'"),
        ({"acknowledge": "never"}, "acknowledge must be settled or spooled, not 'never'"),
        ({"dropDuplicates": "all"}, "dropDuplicates must be redelivered, messageId or none, not 'all'"),
        ({"protocol": "mqtt"}, "protocol must be amqp091 or amqp1, not 'mqtt'"),
        ({"servers": "amqps://a,b"}, "has addresses with amqps:// and without"),
        ({"servers": "amqp://u:p@h"}, r"servers = 'amqp://\*\*\*@h' must be host:port"),
        ({"maxTriggerDelay": "5s"}, "maxTriggerDelay goes with minOffsetsPerTrigger"),
        ({"tlsCaFile": "/ca"}, "option tlsCaFile needs servers that begin with amqps://"),
        ({"servers": "amqps://a", "tlsKeyFile": "/k"}, "need tlsCertificateFile"),
    ],
)
def test_invalid_option_is_refused(given, sentence):
    with pytest.raises(OptionError, match=sentence):
        amqp_options({**LEAST, **given})


@pytest.mark.parametrize("name", LEAST)
def test_missing_option_is_named(name):
    with pytest.raises(OptionError, match=f"the amqp source needs the option {name}"):
        amqp_options({key: text for key, text in LEAST.items() if key != name})
