"""The load generator against the broker: its counts are complete, and each failure ends the run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock
from bench import brokers, loadgen
from tests.support.stalls import undisturbed

SHORT = ("--warm-up", "0.1", "--seconds", "0.3")


@pytest.fixture(scope="module")
def program() -> Path:
    try:
        return loadgen.build()
    except loadgen.LoadError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def broker(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[brokers.Broker]:
    form = brokers.COMPILED if penstock.compiled() else brokers.INTERPRETED
    running = brokers.start_penstock(form, tmp_path_factory.mktemp("broker"))
    yield running
    running.stop()


def place_of(broker: brokers.Broker) -> tuple[str, int]:
    return "127.0.0.1", broker.port


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--ack", "0"),
        ("--ack", "1", "--batch", "1"),
        ("--sizes", "uniform:16:3000", "--properties", "distinct"),
        ("--sizes", "300000", "--batch", "4", "--in-flight", "40", "--ack", "7"),
        ("--pairs", "5"),
        ("--confirms", "100"),
        ("--confirms", "100", "--durable", "--delivery-mode", "2"),
        ("--rate", "2000", "--ack", "1"),
        ("--queues", "3"),
        ("--exchange", "direct", "--queues", "3", "--properties", "distinct"),
        ("--exchange", "topic", "--queues", "100", "--bindings", "1000", "--pairs", "2"),
        ("--exchange", "headers", "--queues", "20", "--bindings", "40", "--properties", "distinct"),
    ],
    ids=" ".join,
)
def test_messages_of_a_load_arrive_once_and_in_order(broker: brokers.Broker, options: tuple[str, ...]) -> None:
    def run() -> None:
        # The generator itself ends with an error when a sequence number is missing, repeated or out of turn.
        result = loadgen.run(broker.port, *SHORT, *options)
        assert result["published"] == result["consumed"] > 0
        assert 0 < result["messages"] <= result["consumed"]
        assert result["nacked"] == result["returned"] == 0
        assert 0 < result["latency_us"]["p50"] <= result["latency_us"]["p99"] <= result["latency_us"]["max"]

    undisturbed(run, place_of(broker))


def test_message_to_a_fanout_exchange_comes_out_of_every_queue(broker: brokers.Broker) -> None:
    result = loadgen.run(broker.port, *SHORT, "--exchange", "fanout", "--queues", "30", "--confirms", "100")
    assert result["consumed"] == 30 * result["published"] > 0
    assert result["nacked"] == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--exchange", "x-random"), "--exchange x-random: direct, fanout, topic or headers is wanted"),
        (("--queues", "1000"), "--queues: 1 to 999 are possible"),
        (("--queues", "3", "--bindings", "4"), r"--bindings 4: a multiple of --queues \(3\) below 100000 is wanted"),
        (("--exchange", "fanout", "--queues", "100"), "--in-flight 20000 leaves no room for a batch of 256"),
    ],
    ids=lambda words: words[-1],
)
def test_options_that_do_not_fit_end_it_with_one_sentence(program: Path, options: tuple[str, ...], reason: str) -> None:
    with pytest.raises(loadgen.LoadError, match=reason):
        loadgen.run(1, *options)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--ack", "0"),
        ("--ack", "1", "--batch", "1", "--confirms", "100"),
        ("--sizes", "uniform:16:3000", "--properties", "distinct", "--confirms", "100"),
        ("--sizes", "300000", "--batch", "4", "--in-flight", "40", "--ack", "7", "--confirms", "10"),
        ("--pairs", "2", "--links", "3", "--confirms", "10"),
        ("--pairs", "2", "--links", "2", "--one-queue", "--confirms", "10"),
        ("--confirms", "100", "--durable", "--delivery-mode", "2"),
        ("--rate", "2000", "--ack", "1", "--sasl", "ANONYMOUS"),
    ],
    ids=" ".join,
)
def test_messages_of_a_load_arrive_once_and_in_order_over_amqp_1_0(
    broker: brokers.Broker, options: tuple[str, ...]
) -> None:
    result = loadgen.run(broker.port, *SHORT, *options, protocol=loadgen.AMQP1)
    assert result["published"] == result["consumed"] > 0
    assert result["accepted"] == (result["published"] if "--confirms" in options else 0)
    assert result["released"] == result["rejected"] == result["modified"] == 0
    assert result["beyond_credit"] == 0


def test_senders_of_amqp_1_0_stop_when_their_credit_is_used(broker: brokers.Broker) -> None:
    bound = ("--argument", "capacity-messages=150", "--links", "4", "--confirms", "1000", "--no-consumer")
    result = loadgen.run(broker.port, *SHORT, *bound, protocol=loadgen.AMQP1)
    assert 0 < result["published"] <= 150
    assert result["released"] == result["rejected"] == result["consumed"] == 0


def test_wrong_password_ends_a_login_of_amqp_1_0(broker: brokers.Broker) -> None:
    with pytest.raises(loadgen.LoadError, match="the login by PLAIN as guest failed with the SASL code 1"):
        loadgen.run(broker.port, *SHORT, "--no-declare", "--password", "wrong", protocol=loadgen.AMQP1)


def test_address_that_the_broker_does_not_know_ends_it_with_the_brokers_words(broker: brokers.Broker) -> None:
    with pytest.raises(loadgen.LoadError, match="the broker sent detach: amqp:not-found"):
        loadgen.run(broker.port, *SHORT, "--no-declare", protocol=loadgen.AMQP1)


def test_fixed_rate_is_not_exceeded(broker: brokers.Broker) -> None:
    """Over the whole of a run: what was late is published in a hurry."""
    result = loadgen.run(broker.port, "--warm-up", "0", "--seconds", "1", "--rate", "1000", "--ack", "1")
    assert 0 < result["published"] < 1100 * result["seconds"]


def test_messages_of_a_load_are_confirmed_once(broker: brokers.Broker) -> None:
    def run() -> None:
        result = loadgen.run(broker.port, "--warm-up", "0", "--seconds", "0.3", "--confirms", "10")
        assert result["confirm_us"]["count"] > 0

    undisturbed(run, place_of(broker))


def test_brokers_processor_time_is_measured(broker: brokers.Broker) -> None:
    def run() -> None:
        result = loadgen.run(broker.port, "--warm-up", "0.1", "--seconds", "1", pids=broker.pids())
        assert 0 < result["broker_cpu"] <= 1.5

    undisturbed(run, place_of(broker))


def test_publisher_that_is_blocked_waits_and_goes_on(broker: brokers.Broker) -> None:
    def run() -> None:
        result = loadgen.run(broker.port, *SHORT, "--argument", "capacity-messages=150")
        assert result["published"] == result["consumed"] > 150
        assert result["blocked"] > 0

    undisturbed(run, place_of(broker))


def test_wrong_password_ends_it_with_the_brokers_words(broker: brokers.Broker) -> None:
    with pytest.raises(loadgen.LoadError, match="403"):
        loadgen.run(broker.port, *SHORT, "--password", "wrong")


def test_argument_that_the_broker_refuses_ends_it_with_the_brokers_words(broker: brokers.Broker) -> None:
    with pytest.raises(loadgen.LoadError, match=r"closed the publisher's channel with 406: .*capacity-messages"):
        loadgen.run(broker.port, *SHORT, "--argument", "capacity-messages=-5")


def test_load_without_a_listening_broker_ends_with_one_sentence(program: Path) -> None:
    with pytest.raises(loadgen.LoadError, match=r"cannot connect to 127\.0\.0\.1:1: Connection refused"):
        loadgen.run(1, *SHORT)
