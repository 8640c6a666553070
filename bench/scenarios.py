"""What is measured, and what Penstock is expected to reach in it."""

from dataclasses import dataclass

from bench.loadgen import AMQP091, AMQP1, AMQPS, POSTGRESQL


@dataclass(frozen=True)
class Scenario:
    """One load; the goals are None where nothing is promised.

    `compiled` and `interpreted` are the least ratios of RabbitMQ's CPU time per message to ours, `rate` the least
    messages per second of the compiled broker, `latency` that its p99 from publishing to delivery is no worse than
    RabbitMQ's, `confirmation` the same from publishing to confirmation. `at_most` and `at_most_interpreted` are the
    most microseconds of CPU time per message. With several peers, the ratios are those to the best of them.
    """

    key: str
    title: str
    options: tuple[str, ...]
    compiled: float | None = None
    interpreted: float | None = None
    rate: float | None = None
    latency: bool = False
    confirmation: bool = False
    one_core: bool = False
    at_most: float | None = None
    at_most_interpreted: float | None = None
    beside_relay: float | None = None
    """Most times of the processor time of the bare relay (relay.c) in the same run."""
    stored: bool = False
    """True if peers keep its messages on the disk: those that do take part, and no others."""


PERSISTENT = ("--durable", "--delivery-mode", "2", "--sizes", "1024", "--ack", "5000", "--prefetch", "20000")
"""Every message has to be written: nobody acknowledges it before its confirmation is waited for (a window of 1000 or
4000); what is acknowledged first no broker writes."""

FEW = ("--batch", "4", "--in-flight", "40", "--ack", "10")
WRITTEN = ("--batch", "4", "--in-flight", "200", "--prefetch", "1000", "--confirms", "8", "--ack", "40")
"""As `PERSISTENT`, but large: every message has to be written. With `FEW`, brokers may leave out those acknowledged."""

SCENARIOS = (
    Scenario("acks", "100 B, acks of 100", ("--ack", "100"), compiled=20, interpreted=3, at_most_interpreted=2),
    Scenario(
        "varied",
        "50-150 B, message-ids, acks of 100",
        ("--ack", "100", "--sizes", "uniform:50:150", "--properties", "distinct"),
        compiled=20,
        interpreted=3,
    ),
    Scenario("kib", "1 KiB, acks of 100", ("--ack", "100", "--sizes", "1024"), compiled=10, interpreted=2),
    Scenario("confirms", "100 B, confirms, window 100", ("--ack", "100", "--confirms", "100"), compiled=15),
    Scenario("latency", "100 B, 10,000 msgs/s, single acks", ("--ack", "1", "--rate", "10000"),
             latency=True, at_most=15, beside_relay=1.5),
    Scenario("core", "100 B, broker on one core", ("--ack", "100"), rate=1_000_000, one_core=True),
    Scenario(
        "pairs", "100 B, 8 publishers and consumers", ("--ack", "100", "--pairs", "8"), compiled=20, interpreted=3
    ),
    Scenario(
        "persistent",
        "1 KiB, persistent, confirms, window 1000",
        (*PERSISTENT, "--confirms", "1000"),
        compiled=8,
        interpreted=4,
    ),
    Scenario(
        "steady",
        "1 KiB, persistent, 10,000 msgs/s",
        (*PERSISTENT, "--confirms", "4000", "--rate", "10000"),
        compiled=2,
        confirmation=True,
        at_most=40,
    ),
    Scenario("large", "1 MiB, acks of 10 (1.5 GB/s is 1,431/s)", (*FEW, "--sizes", "1048576"), rate=1431),
    Scenario("large-persistent", "1 MiB, persistent, acks of 10",
             (*FEW, "--sizes", "1048576", "--durable", "--delivery-mode", "2")),
    Scenario("large-confirms", "1 MiB, persistent, confirms, window 8, acks of 40",
             (*WRITTEN, "--sizes", "1048576", "--durable", "--delivery-mode", "2")),
    Scenario("several-frames", "200,000 B in two frames, acks of 10", (*FEW, "--sizes", "200000")),
    Scenario("fanout", "100 B, each to 100 queues by a fanout exchange",
             ("--exchange", "fanout", "--queues", "100", "--batch", "50"), compiled=10),
    Scenario("topic", "100 B, a topic exchange with 10,000 bindings, 10,000 keys in turn",
             ("--exchange", "topic", "--queues", "100", "--bindings", "10000"), compiled=10),
    Scenario("headers", "100 B, a headers exchange with 100 bindings of two headers each",
             ("--exchange", "headers", "--queues", "100"), compiled=10),
)  # fmt: skip
"""Times are for each message that is delivered."""

UNSETTLED = ("--confirms", "1000", "--ack", "100")
PRESETTLED = ("--ack", "0")

SCENARIOS10 = (
    Scenario("unsettled", "100 B, unsettled window 1000, acks of 100", UNSETTLED,
             compiled=4, at_most=0.7, at_most_interpreted=8),
    Scenario("small-window", "100 B, unsettled window 100, acks of 100", ("--confirms", "100", "--ack", "100")),
    Scenario("settled", "100 B, pre-settled", PRESETTLED, compiled=4, at_most=0.7),
    Scenario("kib", "1 KiB, unsettled window 1000, acks of 100", (*UNSETTLED, "--sizes", "1024"),
             compiled=4, at_most=1.6),
    Scenario("kib-settled", "1 KiB, pre-settled", (*PRESETTLED, "--sizes", "1024"), compiled=4, at_most=1.6),
    Scenario("properties", "100 B, header and message-id, window 1000", (*UNSETTLED, "--properties", "distinct")),
    Scenario("links", "100 B, 8 links on one session, window 1000", (*UNSETTLED, "--links", "8")),
    Scenario("latency", "100 B, 10,000 msgs/s, single acks", ("--confirms", "1000", "--ack", "1", "--rate", "10000"),
             latency=True, at_most=15),
    Scenario("core", "100 B, broker on one core", UNSETTLED, rate=1_000_000, one_core=True),
    Scenario("persistent", "1 KiB, durable, window 1000", (*PERSISTENT, "--confirms", "1000"),
             compiled=3, at_most=3, stored=True),
)  # fmt: skip
"""Over AMQP 1.0: messages are one data section where nothing else is said."""

TLS = (Scenario("kib", "1 KiB, acks of 100", ("--ack", "100", "--sizes", "1024"), compiled=5),)

STORES = (
    Scenario("persistent", "1 KiB, persistent, confirms, window 4000", (*PERSISTENT, "--confirms", "4000"),
             rate=60_000, stored=True),
    Scenario("steady", "1 KiB, persistent, 10,000 msgs/s", (*PERSISTENT, "--confirms", "4000", "--rate", "10000"),
             confirmation=True, stored=True),
)  # fmt: skip

SCENARIOS_OF = {AMQP091: SCENARIOS, AMQP1: SCENARIOS10, AMQPS: TLS, POSTGRESQL: STORES}
