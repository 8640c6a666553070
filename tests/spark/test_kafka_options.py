"""Options of Spark's Kafka source and sink: each is understood, or refused with the option to use."""

import pytest

from pyspark_amqp.options import amqp_options
from pyspark_penstock.batch_options import BATCH, BATCH_ONLY, batch_options
from pyspark_penstock.errors import OptionError
from pyspark_penstock.kafka_options import BOTH, KAFKA, SINK, SOURCE, KafkaOption
from pyspark_penstock.options import SOURCE as SOURCE_OPTIONS
from pyspark_penstock.options import check_names, sink_options, source_options
from pyspark_penstock.parsing import Address

OF_SPARK_4 = {
    "kafka.bootstrap.servers": "kafka-1:9092,kafka-2:9092",
    "subscribe": "orders,audit",
    "subscribePattern": "orders.*",
    "assign": '{"127.0.0.1:5672": ["orders"]}',
    "startingOffsets": '{"orders": 1200}',
    "startingTimestamp": "1795341600000",
    "startingOffsetsByTimestamp": '{"orders": {"0": 1795341600000}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "endingOffsets": '{"orders": -1}',
    "endingTimestamp": "1795341600000",
    "endingOffsetsByTimestamp": '{"orders": {"0": 1795341600000}}',
    "failOnDataLoss": "false",
    "kafkaConsumer.pollTimeoutMs": "120000",
    "fetchOffset.numRetries": "3",
    "fetchOffset.retryIntervalMs": "10",
    "maxOffsetsPerTrigger": "1000",
    "minOffsetsPerTrigger": "10",
    "maxTriggerDelay": "15m",
    "minPartitions": "8",
    "maxRecordsPerPartition": "1000",
    "groupIdPrefix": "spark",
    "kafka.group.id": "billing",
    "includeHeaders": "true",
    "topic": "bills",
}
"""Every option that the integration guide of Spark 4 lists, with a value as it stands in programs."""
OF_CLIENTS = {
    "kafka.security.protocol": "SASL_SSL",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": 'ScramLoginModule required username="u" password="hunter2";',
    "kafka.ssl.truststore.location": "/etc/trust.jks",
    "kafka.ssl.keystore.location": "/etc/key.jks",
    "kafka.ssl.keystore.password": "hunter2",
    "kafka.*": "x",
}
"""Options of Kafka's clients that are in the table."""
NEEDED_WITH = {"maxTriggerDelay": {"minOffsetsPerTrigger": "5"}}
ROWS = {option.name: option for option in KAFKA}


def read(option: KafkaOption, name: str, value: str) -> object:
    """Return the options of the reader or writer that has the option. Raises `OptionError`."""
    if option.side == SINK:
        return sink_options({"exchange": "bills", name: value})
    subscribed = {} if name.startswith(("subscribe", "assign")) else {"subscribe": "orders"}
    given = {**subscribed, **NEEDED_WITH.get(name, {}), name: value}
    return batch_options(given) if name.startswith("ending") else source_options({**given, "cursor": "app"})


def test_table_has_each_option_of_spark_and_no_other():
    assert sorted(ROWS) == sorted([*OF_SPARK_4, *OF_CLIENTS])


@pytest.mark.parametrize("name", [*OF_SPARK_4, *OF_CLIENTS])
def test_option_of_kafka_is_understood_or_refused_with_advice(name):
    option, value = ROWS[name], (OF_SPARK_4 | OF_CLIENTS)[name]
    if not option.advice:
        assert option.here == name
        assert name in {each.name for each in (*SOURCE_OPTIONS, *BATCH)}
        read(option, name, value)
        return
    with pytest.raises(OptionError, match=r"has no option '.*', which is one of Kafka's; ") as refusal:
        read(option, name, value)
    assert str(refusal.value).endswith(option.advice)
    assert "hunter2" not in str(refusal.value)
    with pytest.raises(OptionError, match="which is one of Kafka's; "):
        check_names({name: value}, BATCH_ONLY)


@pytest.mark.parametrize("option", [each for each in KAFKA if each.side == BOTH])
def test_option_of_source_and_sink_is_refused_by_the_sink_too(option):
    with pytest.raises(OptionError, match="the penstock sink has no option"):
        sink_options({"queue": "bills", option.name: "x"})


@pytest.mark.parametrize("option", KAFKA)
def test_row_names_an_option_that_exists(option):
    names = {each.name for each in (*SOURCE_OPTIONS, *BATCH)} | {"queue"}
    assert option.here in names | {""}
    assert option.side in (SOURCE, SINK, BOTH)


@pytest.mark.parametrize("name", ["kafka.fetch.max.bytes", "kafka.acks", "KAFKA.Linger.MS"])
def test_option_of_a_kafka_client_is_named_as_such(name):
    with pytest.raises(OptionError, match=f"no option '{name}', which is one of Kafka's; leave it out"):
        source_options({"subscribe": "orders", "cursor": "app", name: "1"})


@pytest.mark.parametrize(
    ("name", "advice"),
    [("group.id", "write cursor"), ("bootstrap.servers", "write servers"), ("topics", "write subscribe")],
)
def test_option_of_kafka_in_another_spelling_has_the_same_answer(name, advice):
    with pytest.raises(OptionError, match=f"no option '{name}', which is one of Kafka's; {advice}"):
        source_options({"subscribe": "orders", "cursor": "app", name: "x"})


def test_source_amqp_advises_no_option_that_it_lacks():
    with pytest.raises(OptionError, match=r"has no option 'kafka\.group\.id'; known are") as refusal:
        amqp_options({"subscribe": "orders", "spool": "/data/spool", "kafka.group.id": "x"})
    assert "write cursor" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("assign", '{"orders": [0, 1], "audit": [0]}', "Penstock has no partitions: write subscribe = 'orders,audit'"),
        ("startingOffsets", '{"orders": {"0": 23}}', 'has no partitions: write {"orders": 23}, with the sequence'),
        ("startingOffsets", '{"orders": {"0": 23, "1": -2}}', 'has no partitions: write {"orders": 23}'),
        ("startingOffsets", '{"orders": {"0": -1, "1": -2}}', 'has no partitions: write {"orders": 1200}'),
        ("startingOffsets", '{"orders": {"0": true}}', 'has no partitions: write {"orders": 1200}'),
        ("startingOffsets", '{"orders": {"0": "x"}}', 'has no partitions: write {"orders": 1200}'),
        ("endingOffsets", '{"orders": {"0": 23}}', 'has no partitions: write {"orders": 23}'),
    ],
)
def test_kafka_partitions_are_refused_with_the_form_without_partitions(name, value, sentence):
    with pytest.raises(OptionError, match=f"^option {name} = ") as refusal:
        read(ROWS[name], name, value)
    assert sentence in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_starting_offsets_equal_for_all_partitions_are_understood():
    given = '{"orders": {"0": -2, "1": -2, "2": -2}, "audit": {"0": -1}}'
    options = source_options({"subscribe": "orders,audit", "cursor": "app", "startingOffsets": given})
    assert options.starting.offsets == {"orders": "earliest", "audit": "latest"}


@pytest.mark.parametrize(
    "text", ["Earliest", "LATEST", '{"orders": "Latest"}', '{"orders": {"127.0.0.1:5672": "earliest"}}']
)
def test_words_for_the_ends_are_taken_in_any_case(text):
    found = source_options({"subscribe": "orders", "cursor": "app", "startingOffsets": text}).starting.offsets
    expected = {
        "Earliest": "earliest",
        "LATEST": "latest",
        '{"orders": "Latest"}': {"orders": "latest"},
    }.get(text, {"orders": {Address("127.0.0.1", 5672): "earliest"}})
    assert found == expected


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"fetchWait": "500"}, "must be a time with a unit, from 0 to 10 s (such as 500ms), not '500'; write 500ms"),
        ({"fetchWait": "5"}, "not '5'; write 5s or 5ms"),
        ({"fetchWait": "50000"}, "must be a time with a unit, from 0 to 10 s (such as 500ms), not '50000'"),
        ({"fetchWait": "1" * 40}, "(such as 500ms), not '1111"),
        ({"fetchWait": "5 secnods"}, "(such as 500ms), not '5 secnods'"),
        (
            {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "900"},
            "to 1 d (such as 30min), not '900'; write 900s or 900ms",
        ),
    ],
)
def test_number_without_a_unit_is_refused_with_the_durations_it_may_mean(given, sentence):
    with pytest.raises(OptionError) as refusal:
        source_options({"subscribe": "orders", "cursor": "app", **given})
    assert sentence in str(refusal.value)


@pytest.mark.parametrize(("text", "milliseconds"), [("15min", 900_000), ("1D", 86_400_000), ("90 S", 90_000)])
def test_durations_take_the_units_of_spark(text, milliseconds):
    given = {"subscribe": "orders", "cursor": "app", "minOffsetsPerTrigger": "5", "maxTriggerDelay": text}
    assert source_options(given).delay_ms == milliseconds
