"""Options of Spark's Kafka source and sink, and the meaning of each here; without I/O.

Programs move from Kafka to Penstock with their options. An option of the same name has the same meaning, except for the
difference in its row. Any other option is refused with a sentence that names its replacement.
"""

from dataclasses import dataclass
from typing import Final

SOURCE: Final = "source"
SINK: Final = "sink"
BOTH: Final = "source, sink"


@dataclass(frozen=True, slots=True)
class KafkaOption:
    """Option of Spark's Kafka source or sink."""

    name: str
    side: str
    here: str = ""
    """Option of the same meaning; empty for none."""
    advice: str = ""
    """End of the refusing sentence: the options to use here; empty for an option of the same name."""
    difference: str = ""
    """Difference to Kafka's option, with its reason."""


KAFKA: Final = (
    KafkaOption(
        "kafka.bootstrap.servers",
        BOTH,
        "servers",
        "write servers = 'host:5672', the address of Penstock",
        "each server has queues of its own: with several, the queues of all of them are read",
    ),
    KafkaOption("subscribe", SOURCE, "subscribe", "", "names of queues, which must exist"),
    KafkaOption("subscribePattern", SOURCE, "subscribePattern", "", "as Python reads it, which knows no `\\p{...}`"),
    KafkaOption("assign", SOURCE, "assign", "", "queues by server, for Penstock has no partitions"),
    KafkaOption(
        "startingOffsets",
        SOURCE,
        "startingOffsets",
        "",
        'sequences by queue, for Penstock has no partitions; a start *after* that sequence. `{"0": -2, "1": -2}`, the '
        "same end for all partitions, is understood",
    ),
    KafkaOption("startingTimestamp", SOURCE, "startingTimestamp", "", "ISO 8601 too"),
    KafkaOption(
        "startingOffsetsByTimestamp",
        SOURCE,
        "startingTimestamp",
        "write startingTimestamp, one time for all queues",
        "one time for all queues",
    ),
    KafkaOption(
        "startingOffsetsByTimestampStrategy",
        SOURCE,
        "",
        "leave it out: a queue without a message since startingTimestamp begins at its next one",
        "always as `latest`, with a warning",
    ),
    KafkaOption("endingOffsets", SOURCE, "endingOffsets", "", "of a batch read; up to and with that sequence"),
    KafkaOption("endingTimestamp", SOURCE, "endingTimestamp", "", "of a batch read"),
    KafkaOption(
        "endingOffsetsByTimestamp",
        SOURCE,
        "endingTimestamp",
        "write endingTimestamp, one time for all queues",
        "one time for all queues",
    ),
    KafkaOption("failOnDataLoss", SOURCE, "failOnDataLoss", "", "the error names the messages"),
    KafkaOption(
        "kafkaConsumer.pollTimeoutMs",
        SOURCE,
        "",
        "leave it out: a task asks again after 30 s without an answer",
        "a task asks again after 30 s without an answer",
    ),
    KafkaOption("fetchOffset.numRetries", SOURCE, "fetchOffset.numRetries", "", "with `onServerLoss=fail`"),
    KafkaOption("fetchOffset.retryIntervalMs", SOURCE, "fetchOffset.retryIntervalMs", "", "the first pause"),
    KafkaOption("maxOffsetsPerTrigger", SOURCE, "maxOffsetsPerTrigger", "", "has a default: half of the capacity"),
    KafkaOption("minOffsetsPerTrigger", SOURCE, "minOffsetsPerTrigger", "", "not while a producer is blocked"),
    KafkaOption("maxTriggerDelay", SOURCE, "maxTriggerDelay", "", "with a unit"),
    KafkaOption("minPartitions", SOURCE, "minPartitions", "", "partitions of the batch, for a queue has none"),
    KafkaOption("maxRecordsPerPartition", SOURCE, "maxRecordsPerPartition", "", "has a default"),
    KafkaOption(
        "groupIdPrefix",
        SOURCE,
        "cursor",
        "write cursor, the name of the read position",
        "a cursor is a position and no group: one query reads through it",
    ),
    KafkaOption(
        "kafka.group.id",
        SOURCE,
        "cursor",
        "write cursor, the name of the read position",
        "a cursor is a position and no group: one query reads through it",
    ),
    KafkaOption(
        "includeHeaders",
        BOTH,
        "columns",
        "write columns, for example columns = 'value,headers'; a sink sends the column headers always",
        "a sink sends the column `headers` always",
    ),
    KafkaOption(
        "topic",
        SINK,
        "queue",
        "write queue, or exchange and routingKey",
        "or `exchange` and `routingKey`. A column `topic` has no meaning: with `exchange` the column `routing_key` has",
    ),
    KafkaOption(
        "kafka.security.protocol",
        BOTH,
        "servers",
        "write servers = 'amqps://host:5671' for TLS",
        "TLS by `amqps://`",
    ),
    KafkaOption(
        "kafka.sasl.jaas.config",
        BOTH,
        "user",
        "write user, and password or passwordFile",
        "`password`, or `passwordFile` for one that is renewed",
    ),
    KafkaOption(
        "kafka.sasl.mechanism",
        BOTH,
        "",
        "leave it out: a login is by user and password",
        "a login is by `user` and `password`",
    ),
    KafkaOption(
        "kafka.ssl.truststore.location", BOTH, "tlsCaFile", "write tlsCaFile, a file in PEM", "a file in PEM, not JKS"
    ),
    KafkaOption(
        "kafka.ssl.keystore.location",
        BOTH,
        "tlsCertificateFile",
        "write tlsCertificateFile and tlsKeyFile, files in PEM",
        "and `tlsKeyFile`: files in PEM, not JKS",
    ),
    KafkaOption(
        "kafka.ssl.keystore.password",
        BOTH,
        "tlsKeyPassword",
        "write tlsKeyPassword, the password of tlsKeyFile",
        "the password of `tlsKeyFile`",
    ),
    KafkaOption(
        "kafka.*",
        BOTH,
        "",
        "leave it out: it is an option of Kafka's clients",
        "all others are options of Kafka's clients, and have no meaning here",
    ),
)
"""Each option of the Kafka source and sink in Spark 4, and the options of Kafka's clients that name a server or a
user."""
_OTHER_SPELLINGS: Final = {
    "group.id": "kafka.group.id",
    "bootstrap.servers": "kafka.bootstrap.servers",
    "kafka.ssl.key.password": "kafka.ssl.keystore.password",
    "topics": "subscribe",
}
_BY_NAME: Final = {option.name.lower(): option for option in KAFKA}


def kafka_advice(key: str, known: frozenset[str]) -> str:
    """Return the replacement of a Kafka option, as the end of a sentence; empty for another option.

    `known` has the options of the reader or writer, in lower case: only these are advised.
    """
    name = key.lower()
    option = _BY_NAME.get(_OTHER_SPELLINGS.get(name, name).lower())
    if option is None and name.startswith("kafka."):
        option = _BY_NAME["kafka.*"]
    if option is None or (option.here and option.here.lower() not in known):
        return ""
    return option.advice or f"write {option.here}"
