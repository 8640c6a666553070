"""Options of the source and the sink: reading, defaults, and refusals."""

import pickle

import pytest

from pyspark_penstock.errors import OptionError
from pyspark_penstock.options import check_names, sink_options, source_options
from pyspark_penstock.parsing import Address, shown_instant
from pyspark_penstock.subscription import Starting, Subscription

LEAST = {"subscribe": "orders", "cursor": "app"}


def test_smallest_source():
    options = source_options(LEAST)
    assert options.subscription == Subscription(("orders",), None, None)
    assert options.access.servers == (Address("127.0.0.1", 5672),)
    assert (options.access.vhost, options.access.user) == ("/", "guest")
    assert (options.starting, options.fail_on_data_loss) == (Starting("earliest", None), True)
    assert (options.continues, options.releases, options.waits) == (False, False, True)
    assert (options.min_rows, options.max_rows, options.delay_ms) == (None, None, 900_000)


def test_options_of_the_source_are_all_read():
    options = source_options(
        {
            "SERVERS": "a, b:5673,[::1]:5674",
            "vhost": "shop",
            "user": "u",
            "password": " p ",
            "subscribe": "orders , audit",
            "cursor": "app",
            "startingoffsets": '{"audit": 12, "orders": {"a:5672": -1}}',
            "onNewCheckpoint": "Continue",
            "onLeftQueue": "release",
            "onServerLoss": "fail",
            "takeover": "true",
            "minOffsetsPerTrigger": "100",
            "maxTriggerDelay": "1.5m",
            "failOnDataLoss": "False",
            "maxOffsetsPerTrigger": "500",
            "maxBytesPerTrigger": "8m",
            "minPartitions": "4",
            "maxRecordsPerPartition": "100",
            "fetchBlockRows": "50",
            "fetchBlockBytes": "64KiB",
            "fetchWait": "0.2s",
            "fetchOffset.numRetries": "2",
            "fetchOffset.retryIntervalMs": "10",
        }
    )
    assert options.access.servers == (Address("a", 5672), Address("b", 5673), Address("::1", 5674))
    assert options.subscription.names == ("orders", "audit")
    assert options.starting.offsets == {"audit": 12, "orders": {Address("a", 5672): "latest"}}
    assert (options.continues, options.releases, options.waits) == (True, True, False)
    assert (options.min_rows, options.delay_ms) == (100, 90_000)
    assert options.fail_on_data_loss is False
    assert (options.max_rows, options.max_bytes) == (500, 8 << 20)
    assert (options.min_partitions, options.max_records_per_partition) == (4, 100)
    assert (options.block_rows, options.block_bytes, options.wait_ms) == (50, 65536, 200)
    assert (options.retries.count, options.retries.interval_ms) == (2, 10)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"maxOffsetPerTrigger": "5"}, "no option 'maxOffsetPerTrigger'; did you mean maxOffsetsPerTrigger?"),
        ({"Subscribe ": "x"}, "did you mean subscribe?"),
        ({"publishWindow": "5"}, "publishWindow is an option of the sink"),
        ({"endingOffsets": "latest"}, "endingOffsets is an option of a batch read (spark.read)"),
        ({"zzz": "5"}, "no option 'zzz'; known are servers, vhost"),
        ({"path": "/tmp/x"}, "no option 'path'"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger must be a whole number from 1, not '0'"),
        ({"maxOffsetsPerTrigger": "many"}, "must be a whole number"),
        ({"maxBytesPerTrigger": "8 megs"}, "must be bytes from 1 (such as 64MiB), not '8 megs'"),
        ({"fetchBlockBytes": "2g"}, "must be bytes from 1 to 268435456 (such as 64MiB), not '2g'"),
        ({"fetchWait": "500"}, "must be a time with a unit, from 0 to 10 s (such as 500ms), not '500'; write 500ms"),
        ({"fetchWait": "11s"}, "from 0 to 10 s (such as 500ms), not '11s'"),
        ({"failOnDataLoss": "maybe"}, "must be true or false"),
        ({"startingOffsets": "middle"}, "must be earliest, latest, or JSON"),
        ({"startingOffsets": '{"orders": -3}'}, "gives -3 for 'orders'; must be earliest"),
        ({"startingOffsets": '{"orders": "7"}'}, "gives '7' for 'orders'"),
        ({"startingOffsets": '{"orders": {"b:1": 7}}'}, "names b:1 for the queue 'orders', which option servers does"),
        ({"startingOffsets": "[1]"}, "must be earliest, latest, or JSON"),
        ({"startingTimestamp": "yesterday"}, "must be milliseconds since 1970, or a time with its offset"),
        ({"startingTimestamp": "2026-11-22T10:00:00"}, "a time with its offset"),
        ({"startingTimestamp": "5", "startingOffsets": "latest"}, "exclude each other"),
        ({"assign": '{"127.0.0.1:5672": ["a"]}'}, "options subscribe and assign exclude each other"),
        ({"subscribePattern": "a("}, "must be a regular expression"),
        ({"minOffsetsPerTrigger": "7", "maxOffsetsPerTrigger": "6"}, "must be at most maxOffsetsPerTrigger, 6"),
        ({"maxTriggerDelay": "7s"}, "goes with minOffsetsPerTrigger"),
        ({"onServerLoss": "ignore"}, "must be wait or fail"),
        ({"onNewCheckpoint": "1"}, "must be fail or continue"),
        ({"startingOffsets": '{"orders": true}'}, "sequences from 0 up"),
        ({"startingOffsets": '{"ordrs": 2}'}, "names the queue 'ordrs', which subscribe does not"),
        ({"servers": "a:99999"}, "must be host:port"),
        ({"servers": "http://a:1"}, "must be host:port"),
        ({"servers": "a:1,a:1"}, "names a server twice"),
        ({"subscribe": "a,,b"}, "must be names, each a string of 1 to 255 bytes"),
        ({"subscribe": "a,a"}, "names a queue twice"),
        ({"cursor": "c" * 256}, "cursor must be a string of 1 to 255 bytes, not 'ccc"),
    ],
)
def test_bad_source_option_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(OptionError, match="option") as refusal:
        source_options({**LEAST, **given})
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("missing", ["subscribe", "cursor"])
def test_missing_option_is_named(missing):
    given = {key: value for key, value in LEAST.items() if key != missing}
    with pytest.raises(OptionError, match=f"needs the option {missing}"):
        source_options(given)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ('{"a:5672": ["orders"]}', "option assign has no queues for b:5672"),
        ('{"a": ["orders"], "b": ["x"], "c": ["y"]}', "option assign names c:5672, which option servers does not"),
        ('{"orders": [0, 1]}', "Penstock has no partitions: write subscribe = 'orders'"),
        ('{"a": [], "b": ["x"]}', "must be JSON such as"),
        ('["orders"]', "must be JSON such as"),
        ('{"a": ["x", "x"], "b": ["x"]}', "names a queue twice"),
        ('{"a": ["x"], "a:5672": ["y"]}', "names a server twice"),
    ],
)
def test_bad_assignment_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(OptionError, match="option") as refusal:
        source_options({"cursor": "app", "servers": "a,b", "assign": given})
    assert sentence in str(refusal.value)


def test_queues_are_assigned_to_servers():
    options = source_options({"cursor": "app", "servers": "a,b", "assign": '{"a": ["x", "y"], "b:5672": ["z"]}'})
    assert [options.subscription.of(server) for server in options.access.servers] == [["x", "y"], ["z"]]
    assert str(options.subscription) == "x, y of a:5672; z of b:5672"
    assert options.subscription.may_have("z")
    assert not options.subscription.may_have("w")


def test_pattern_matches_whole_names():
    subscription = source_options({"cursor": "app", "subscribePattern": "orders(-.*)?"}).subscription
    assert subscription.matching(["orders", "orders-2", "my-orders", "orders2"]) == ["orders", "orders-2"]
    with pytest.raises(OptionError, match="names the queue 'audit', which subscribePattern does not"):
        source_options({"cursor": "app", "subscribePattern": "orders", "startingOffsets": '{"audit": 5}'})


@pytest.mark.parametrize(
    "text", ["1795341600000", "2026-11-22T10:00:00Z", "2026-11-22T11:00:00+01:00", "2026-11-22 10:00:00.000000+00:00"]
)
def test_time_is_milliseconds_or_iso_8601_with_its_offset(text):
    options = source_options({**LEAST, "startingTimestamp": text})
    assert options.starting.time == 1795341600000000
    assert shown_instant(options.starting.time) == "2026-11-22T10:00:00.000Z"


def test_password_is_never_shown():
    options = source_options({**LEAST, "password": "hunter2"})
    assert "hunter2" not in repr(options)


@pytest.mark.parametrize("servers", ["guest:hunter2@host", "amqp://guest:hunter2@host:1", "a:1, guest:hunter2@b:1"])
def test_secret_in_an_address_is_never_shown(servers):
    with pytest.raises(OptionError, match="must be host:port") as refusal:
        source_options({**LEAST, "servers": servers})
    assert "hunter2" not in str(refusal.value)
    assert "***@" in str(refusal.value)


def test_options_that_spark_adds_to_a_table_are_understood():
    table = {"provider": "penstock", "path": "/warehouse/orders", **{f"option.{key}": LEAST[key] for key in LEAST}}
    check_names({**LEAST, **table})
    assert source_options({**LEAST, **table}) == source_options(LEAST)
    table = {"provider": "penstock", "path": "/warehouse/orders", "option.queue": "out"}
    assert sink_options({"queue": "out", **table}) == sink_options({"queue": "out"})
    with pytest.raises(OptionError, match=r"no option 'option\.zzz'"):
        check_names({**LEAST, "option.zzz": "1"})


def test_options_travel_to_executors():
    options = source_options(LEAST)
    assert pickle.loads(pickle.dumps(options)) == options


def test_words_are_taken_in_any_case():
    assert source_options({**LEAST, "onLeftQueue": "Release"}).releases
    assert sink_options({"queue": "out", "delivery": "DEDUP"}).delivery == "dedup"


def test_sink_to_a_queue():
    options = sink_options({"queue": "out", "publishTimeout": "90s", "checkpointLocation": "/x", "queryName": "q"})
    assert (options.queue, options.exchange, options.timeout_ms, options.window) == ("out", None, 90_000, 20_000)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "needs one of the options queue and exchange"),
        ({"queue": "a", "exchange": "b"}, "not both"),
        ({"queue": "a", "routingKey": "b"}, "routingKey goes with exchange"),
        ({"queue": "a", "servers": "x", "spreadColumn": "message_id"}, "is for a sink with several servers"),
        ({"queue": "a", "servers": "x,y", "delivery": "transactional"}, "with several servers needs spreadColumn"),
        ({"queue": "a", "servers": ",".join(f"s{n}" for n in range(17))}, "names 17 servers; the most is 16"),
        ({"queue": "a", "cursor": "b"}, "cursor is an option of the source"),
        ({"queue": "a", "publishTimeOut ": "1s"}, "did you mean publishTimeout?"),
    ],
)
def test_bad_sink_option_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(OptionError, match="option") as refusal:
        sink_options(given)
    assert sentence in str(refusal.value)


def test_options_of_neither_side_are_refused_before_the_side_is_known():
    check_names({**LEAST, "queue": "x", "checkpointLocation": "/x"})
    with pytest.raises(OptionError, match="did you mean subscribe"):
        check_names({"subscrib": "x"})
