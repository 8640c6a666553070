"""The document "Flow Control" of Artemis.

The first line of each docstring is a sentence of the document; after it comes the verdict.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.brokers import BrokerProcess, eventually, in_background, some_name
from tests.support.checklist_clients import OVERHEAD, Board, Consumer, Producer, Taker
from tests.support.commands import run
from tests.support.raw_channel import Connection
from tests.support.raw_client import open_peer, publish_frames

if TYPE_CHECKING:
    from tests.support.proton_links import ProtonClient

pytestmark = pytest.mark.clients

MIB = 1024 * 1024
SMALL = {"max-size-bytes": 10_000, "address-full-policy": "BLOCK", "hold-deadline": 0}
EXAMPLE = """
<configuration><core><address-settings>
  <address-setting match="jms.queue.exampleQueue">
    <max-size-bytes>100000</max-size-bytes><address-full-policy>BLOCK</address-full-policy>
  </address-setting>
</address-settings></core></configuration>
"""
Say = Callable[[str, str, dict[str, object]], None]
"""The fixture `say`."""


# Consumers


def test_consumer_window_bounds_unacknowledged_bytes_of_a_consumer(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer]
) -> None:
    """'The total maximum size of messages (in bytes) that will be buffered on each consumer is determined by the
    consumerWindowSize parameter': yes, in `basic.consume`, as a link property, and by queue or pattern. On purpose what
    is not acknowledged counts, not what lies in a buffer of the client (decision 91)."""
    name = queue()
    producer(name).send(6, 1000).confirmed()
    consuming = consumer(name, {"consumerWindowSize": 2500})
    assert consuming.buffers() == 2
    consuming.ack(1)
    assert consuming.buffers() == 2


def test_consumer_window_is_unbounded_by_default_and_1_mib_by_one_line(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer], say: Say
) -> None:
    """'By default, the consumerWindowSize is set to 1 MiB (1024 * 1024 bytes)': on purpose unbounded, for clients of
    AMQP 0-9-1 that acknowledge late would stop (decision 91). `penstock queues set '#' consumerWindowSize=1048576` is
    theirs."""
    say("queue", "seeds.window.#", {"consumerWindowSize": MIB})
    usual, theirs = queue(), queue(prefix="seeds.window.")
    for name in (usual, theirs):
        producer(name).send(5, MIB // 3).confirmed()
    unbounded, bounded = consumer(usual), consumer(theirs)
    eventually(lambda: unbounded.buffers() == 5, "every message")
    eventually(lambda: bounded.buffers() == 3, "a window")
    assert bounded.buffers() == 3


@pytest.mark.parametrize(("window", "out"), [(-1, 5), (0, 1), (2500, 2), ("1MiB", 5)])
def test_values_of_the_consumer_window(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    consumer: Callable[..., Consumer],
    window: object,
    out: int,
) -> None:
    """'-1 for an unbounded buffer', '0 to not buffer any messages', '>0 for a buffer with the given maximum size in
    bytes': yes. With 0 a message comes when the one before it is acknowledged."""
    name = queue()
    producer(name).send(5, 1000).confirmed()
    assert consumer(name, {"consumerWindowSize": window}).buffers() == out


def test_fast_consumer_has_no_window(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer], say: Say
) -> None:
    """'To allow fast consumers, set the consumerWindowSize to -1': yes, also where the queue's window is smaller."""
    name = queue(prefix="seeds.fast.")
    say("queue", "seeds.fast.#", {"consumerWindowSize": 0})
    producer(name).send(20, 1000).confirmed()
    assert consumer(name).buffers() == 1
    assert consumer(name, {"consumerWindowSize": -1}).buffers() == 19


def test_slow_consumer_leaves_its_messages_to_the_others(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer]
) -> None:
    """'To allow slow consumers, set the consumerWindowSize to 0 (for no buffer at all). This will prevent the slow
    consumer from buffering any messages on the client side. Messages will remain on the server side ready to be
    consumed by other consumers': yes. On purpose a consumer of AMQP 0-9-1 has one message, for it cannot ask (decision
    91)."""
    name = queue()
    slow, fast = (consumer(name, {"consumerWindowSize": 0}) for _ in range(2))
    producer(name).send(20, 1000).confirmed()
    while len(fast.bodies) < 19:
        assert (slow.buffers(), fast.buffers()) == (1, 1)
        fast.ack()
    assert len(slow.bodies) == 1


def test_receiver_without_credit_buffers_nothing(
    queue: Callable[..., str],
    producer: Callable[..., Producer],
    taker: Callable[..., Taker],
    proton: Callable[[], ProtonClient],
    board: Board,
) -> None:
    """'0 to not buffer any messages': yes, none at all over AMQP 1.0, where a receiver grants a credit when it wants a
    message, and with `basic.get`."""
    name = queue()
    producer(name).send(3).confirmed()
    client = proton()
    idle = client.receiver(name, 0)
    client.settled()
    assert (idle.fetcher.has_message, board.view(name)["unacknowledged"]["messages"]) == (0, 0)
    assert taker(name).take(1) == [0]


def test_window_of_0_gives_a_deterministic_distribution(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer]
) -> None:
    """'Setting this to 0 can give deterministic distribution between multiple consumers on a queue': yes."""
    name = queue()
    consumers = [consumer(name, {"consumerWindowSize": 0}) for _ in range(3)]
    producer(name).send(12).confirmed()
    for _ in range(4):
        for each in consumers:
            assert each.buffers() == 1
            each.ack()
            each.buffers()
    assert sorted(number for each in consumers for number in each.numbers) == list(range(12))
    assert [len(each.bodies) for each in consumers] == [4, 4, 4]


def test_window_of_a_consumer_is_a_link_property(
    queue: Callable[..., str], producer: Callable[..., Producer], proton: Callable[[], ProtonClient], board: Board
) -> None:
    """'... the consumer window size is specified by ServerLocator.setConsumerWindowSize() method and some of the
    ClientSession.createConsumer() methods': yes, for one consumer: an argument of `basic.consume`, a link property of a
    receiver. Options of a URL are the client's."""
    name = queue()
    producer(name).send(5, 1000).confirmed()
    client = proton()
    client.receiver(name, 10, consumerWindowSize=2500)
    client.settled()
    assert board.view(name)["unacknowledged"]["messages"] == 2


def test_consumer_is_never_faster_than_its_rate(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer]
) -> None:
    """'This is a form of throttling and can be used to make sure that a consumer never consumes messages at a rate
    faster than the rate specified': yes."""
    name = queue()
    producer(name).send(30).confirmed()
    begun = time.monotonic()
    consuming = consumer(name, {"consumerMaxRate": 20})
    eventually(lambda: consuming.buffers() >= 22, "the messages of a second and one more")
    assert time.monotonic() - begun > 1.0


@pytest.mark.parametrize("rate", [0, -2, 1.5])
def test_rate_must_be_positive(refused: Callable[[dict[str, object]], str], rate: float) -> None:
    """'The rate must be a positive integer to enable this functionality': yes; anything else is refused."""
    assert f"consumerMaxRate={rate}" in refused({"consumerMaxRate": rate})


def test_rate_of_minus_one_is_none_and_the_default(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer]
) -> None:
    """'Setting this to -1 disables rate limited flow control. The default value is -1': yes."""
    name = queue()
    producer(name).send(40).confirmed()
    first = consumer(name, {"consumerMaxRate": -1})
    assert first.buffers() == 40
    first.close()
    other = consumer(name)
    eventually(lambda: other.buffers() == 40, "all that came back")


def test_rate_bounds_the_buffer_too(
    queue: Callable[..., str], producer: Callable[..., Producer], consumer: Callable[..., Consumer]
) -> None:
    """'So if you had a slow rate limit and a high window based limit the clients internal buffer would soon fill up
    with messages': yes, better. The broker delivers at the rate, so the buffer does not fill."""
    name = queue({"consumerMaxRate": 1})
    producer(name).send(100).confirmed()
    assert 1 <= consumer(name, {"consumerWindowSize": MIB}).buffers() < 100


# Producers


def test_producer_sends_as_long_as_it_has_credit(
    queue: Callable[..., str], proton: Callable[[], ProtonClient], board: Board
) -> None:
    """'... producers, by default, can only send messages to an address as long as they have sufficient credits to do
    so': yes over AMQP 1.0. AMQP 0-9-1 has no credit; there confirmations are withheld and publishes held."""
    name = queue({"capacity-messages": 10, "hold-deadline": 0})
    sending = proton().sender(name)
    assert sending.send_while_credit(20) <= 10
    assert (sending.credit, board.view(name)["highest"]["messages"] <= 10) == (0, True)


def test_credit_is_charged_by_the_size_of_messages(
    queue: Callable[..., str], proton: Callable[[], ProtonClient], board: Board
) -> None:
    """'The amount of credits required to send a message is given by the size of the message': yes. Credit of AMQP 1.0
    counts messages; room for the bytes of each is reserved, so small messages get more of it than large ones."""
    sent = []
    for octets in (100, 2000):
        name = queue({"max-size-bytes": 10_000, "hold-deadline": 0})
        sent.append(proton().sender(name).send_while_credit(200, octets))
        assert board.view(name)["highest"]["bytes"] <= 10_000 + sent[-1] * OVERHEAD
    assert sent[0] > sent[1] > 0


def test_producer_gets_more_credit_as_it_runs_low(
    queue: Callable[..., str], proton: Callable[[], ProtonClient]
) -> None:
    """'As producers run low on credits they request more from the server, when the server sends them more credits they
    can send more messages': yes; the broker grants more by itself."""
    sending = proton().sender(queue({"credit-window-messages": 20}))
    sending.send(100)
    assert (sending.accepted, sending.most <= 20) == (100, True)


@pytest.mark.parametrize("how", ["queue", "link"])
def test_producer_window_bounds_the_credit_granted_at_once(
    queue: Callable[..., str], proton: Callable[[], ProtonClient], how: str
) -> None:
    """'The amount of credits a producer requests in one go is known as the window size' (`producerWindowSize=10` in its
    example): yes, by queue, pattern or link. Less than a message is one message at a time."""
    window: dict[str, object] = {"producerWindowSize": 10}
    name = queue(window if how == "queue" else {})
    sending = proton().sender(name, **(window if how == "link" else {}))
    sending.send(5, 100)
    assert (sending.accepted, sending.most) == (5, 1)


def test_connection_is_not_overloaded(
    queue: Callable[..., str], taker: Callable[..., Taker], board: Board, broker: BrokerProcess
) -> None:
    """'The window size therefore determines the amount of bytes that can be in-flight at any one time ... this prevents
    the remoting connection from getting overloaded': yes. Who has no window, as publishers of AMQP 0-9-1, has 1 MiB of
    what is held; then its socket is not read. Until it hears of the block that is 4 MiB."""
    name = queue({"max-size-bytes": 100_000, "hold-deadline": 0})

    def publish() -> None:
        with Connection(broker.url) as connection:
            channel = connection.channel()
            for number in range(1000):
                channel.publish(str(number).encode().ljust(20_000), routing_key=name)
            channel.qos(0)

    with in_background(publish):
        eventually(lambda: [c for c in board.control.list("connections") if c["penstock"]["paused"]], "a pause")
        assert taker(name).take(1000) == list(range(1000))


def test_credit_begins_small(queue: Callable[..., str], proton: Callable[[], ProtonClient]) -> None:
    """'Normally the server will always give the same number of credits as have been requested': on purpose as many as
    there is room for, and a few at first (decision 52). A sender with little room shares it with the others."""
    client = proton()
    names = [queue({"capacity-messages": 20, "hold-deadline": 0}), queue()]
    small, wide = (client.sender(name) for name in names)
    assert 1 <= small.credit <= 20
    first = wide.credit
    wide.send(300)
    assert wide.most > first


def test_credit_never_exceeds_the_capacity_of_an_address(
    queue: Callable[..., str], proton: Callable[[], ProtonClient], board: Board
) -> None:
    """'... it is also possible to set a maximum size on any address ... the server will never send more credits than
    could cause the address's upper memory limit to be exceeded': yes, exactly, with any number of senders."""
    name = queue(SMALL)
    senders = [proton().sender(name) for _ in range(3)]
    sent = 1
    while sent:
        sent = sum(sender.send_while_credit(3, 500) for sender in senders)
    total = sum(len(sender.deliveries) for sender in senders)
    assert sum(sender.credit for sender in senders) == 0
    assert board.depth(name) == total
    assert 10 <= total <= 19


def test_queue_never_exceeds_its_maximum_size(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'... I could set the maximum memory size to 10MiB, and the the server will control the number of credits ... such
    that the total messages in the queue never exceeds 10MiB': yes. Properties and bodies count."""
    assert board.marks(queue({"max-size-bytes": "10Mb"}))[0] == (None, 10 * MIB)
    name = queue(SMALL)
    producers = [producer(name).send(20, OVERHEAD + 300).settled() for _ in range(3)]
    assert (board.depth(name), sum(each.acked for each in producers)) == (33, 33)


def test_producers_block_at_the_maximum_and_not_before(
    queue: Callable[..., str], producer: Callable[..., Producer], proton: Callable[[], ProtonClient], board: Board
) -> None:
    """'When the address gets full, producers will block on the client side': yes. `max-size-bytes` is one mark: the
    gate closes at it. Over AMQP 1.0 no credit is granted; over AMQP 0-9-1 the publish waits at the broker."""
    name = queue(SMALL)
    assert board.marks(name) == ((None, 10_000), (None, 9_999), (None, 9_999))
    publishing = producer(name).send(20, OVERHEAD + 499).confirmed()
    assert not board.stopped(name), "9,980"
    publishing.send(1, OVERHEAD + 20).settled()
    assert (board.stopped(name), publishing.waiting) == (True, 1)
    assert proton().sender(name).credit == 0


def test_producers_go_on_when_messages_are_consumed(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker]
) -> None:
    """'... until more space frees up on the address, i.e. until messages are consumed from the queue thus freeing up
    space for more messages to be sent': yes. On purpose for 25 s by default, then a publish is refused (decision 32);
    `hold-deadline=0` waits for ever."""
    name, short = queue(SMALL), queue(SMALL | {"hold-deadline": "0.1"})
    publishing, refused = producer(name).send(30, OVERHEAD + 500), producer(short).send(30, OVERHEAD + 500)
    assert refused.confirmed().nacked == 10
    assert publishing.settled().waiting > 0
    assert taker(name).take(30) == list(range(30))
    publishing.confirmed()


def test_paging_is_the_alternative_to_blocking(storing: BrokerProcess) -> None:
    """'It is an alternative approach to paging, which does not block producers but instead pages messages to storage':
    yes, `address-full-policy=PAGE`."""
    board = Board(storing)
    name = some_name("paged")
    board.keeper.queue_declare(name, arguments={"max-size-messages": 2, "address-full-policy": "PAGE"})
    publishing, taking = Producer(storing, name), Taker(storing, name)
    assert publishing.send(20).confirmed().acked == 20
    assert taking.take(20) == list(range(20))
    board.keeper.queue_delete(name)
    for each in (board, publishing, taking):
        each.close()


def test_address_settings_of_the_example(broker: BrokerProcess, queue: Callable[..., str], board: Board) -> None:
    """'... you need to define an AddressSettings ... block for the address and specify max-size-bytes and
    address-full-policy' (jms.queue.exampleQueue, 100000, BLOCK): yes, by the same words."""
    name = "jms.queue.exampleQueue"
    run(broker, "set", "queue", name, "max-size-bytes=100000", "address-full-policy=BLOCK")
    assert board.marks(queue(name=name))[0] == (None, 100_000)
    run(broker, "unset", "queue", name)


def test_address_settings_of_an_address(broker: BrokerProcess) -> None:
    """'... specify max-size-bytes and address-full-policy': yes, for an address too. BLOCK is what an address does; its
    other policies are those of queues, and the refusal says so."""
    name = some_name("address")
    run(broker, "set", "address", name, "max-size-bytes=100000", "address-full-policy=BLOCK")
    assert "100000" in run(broker, "settings")
    said = run(broker, "set", "address", name, "max-size-bytes=100000", "address-full-policy=FAIL", code=1)
    assert "penstock queues set" in said
    run(broker, "unset", "address", name)


def test_broker_xml_is_read(broker: BrokerProcess, tmp_path: Path) -> None:
    """'<address-settings> <address-setting match="jms.queue.exampleQueue"> ...': yes, as `penstock definitions import
    --from artemis broker.xml`."""
    file = tmp_path / "broker.xml"
    file.write_text(EXAMPLE)
    found = run(broker, "definitions", "import", str(file), "--from", "artemis", "--output", "-")
    assert "exampleQueue" in json.dumps(json.loads(found))
    assert "100000" in found


@pytest.mark.parametrize("late", [False, True], ids=["bound-first", "bound-later"])
def test_address_is_the_sum_of_its_queues(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board, say: Say, late: bool
) -> None:
    """'The address block applies to all queues registered to that address. I.e. the total memory for all queues bound
    to that address will not exceed max-size-bytes': yes, also when it is set later than the messages came. A message
    that is in several queues counts once, for its content is there once."""
    exchange, names = some_name("address"), [queue() for _ in range(3)]
    board.keeper.exchange_declare(exchange, "direct")
    for name in names:
        board.keeper.queue_bind(name, exchange, name)
    bound = {"max-size-messages": 10}
    if not late:
        say("address", exchange, bound)
    publishing = producer("", exchange)
    for name in names:
        publishing.send(3, queue=name)
    publishing.confirmed()
    if late:
        say("address", exchange, bound)
    publishing.send(5, queue=names[0]).settled()
    assert sum(board.depth(name) for name in names) == 10
    board.keeper.queue_purge(names[1])
    board.keeper.queue_purge(names[2])
    publishing.confirmed()
    say("address", exchange, {"max-size-messages": "none"})
    board.keeper.exchange_delete(exchange)


@pytest.mark.parametrize("kind", ["exchange", "routing-key"])
def test_topic_is_the_sum_of_its_subscriptions(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board, say: Say, kind: str
) -> None:
    """'In the case of JMS topics this means the total memory of all subscriptions in the topic won't exceed
    max-size-bytes': yes, for an exchange, and for a topic that is a routing key of one, as `amq.topic/prices.eur`. Each
    message counts until its last subscription has it acknowledged."""
    exchange, names = some_name("topic"), [queue() for _ in range(3)]
    board.keeper.exchange_declare(exchange, "topic")
    for name in names:
        board.keeper.queue_bind(name, exchange, "prices.#")
    pattern = exchange if kind == "exchange" else f"{exchange}/prices.*"
    say("address", pattern, {"max-size-messages": 10, "stop-messages": 9, "resume-messages": 9})
    publishing = producer("prices.eur", exchange).send(12).settled()
    assert [board.depth(name) for name in names] == [10, 10, 10]
    others = producer("prices.usd", exchange).send().settled()
    assert others.waiting == (1 if kind == "exchange" else 0)
    for name in names:
        assert publishing.settled().waiting == 3
        board.keeper.queue_purge(name)
    publishing.confirmed()
    others.confirmed()
    board.keeper.exchange_delete(exchange)


@pytest.mark.parametrize(("policy", "nacked"), [("BLOCK", 0), ("", 0), ("FAIL", 2), ("DROP", 2)])
def test_policy_block_blocks(
    queue: Callable[..., str], producer: Callable[..., Producer], policy: str, nacked: int
) -> None:
    """'Note the policy must be set to BLOCK to enable blocking producer flow control': yes, stronger: a maximum without
    a policy blocks as well. FAIL and DROP refuse what does not fit."""
    name = queue({"max-size-messages": 5, "hold-deadline": 0} | ({"address-full-policy": policy} if policy else {}))
    publishing = producer(name).send(7).settled()
    assert publishing.nacked == nacked
    assert (publishing.waiting > 0) == (nacked == 0)


def test_default_is_100_mib_a_queue_and_10_mib_by_one_line(queue: Callable[..., str], board: Board, say: Say) -> None:
    """'Note that in the default configuration all addresses are set to block producers after 10 MiB of message data is
    in the address': on purpose 100 MiB a queue, as in Qpid C++ (decision 92). `penstock queues set '#'
    max-size-bytes=10Mb` is theirs."""
    say("queue", "seeds.ten.#", {"max-size-bytes": "10Mb"})
    assert board.marks(queue())[0] == (None, 100 * MIB)
    assert board.marks(queue(prefix="seeds.ten."))[0] == (None, 10 * MIB)


def test_maximum_and_policy_change_at_once(
    queue: Callable[..., str], producer: Callable[..., Producer], say: Say
) -> None:
    """'If you do not want this behaviour increase the max-size-bytes parameter or change the address full message
    policy': yes, for live queues, at once."""
    name, other = queue(), queue()
    for each in (name, other):
        say("queue", each, {"max-size-messages": 5, "hold-deadline": 0})
    raised, refused = producer(name).send(8).settled(), producer(other).send(8).settled()
    say("queue", name, {"max-size-messages": 100, "hold-deadline": 0})
    say("queue", other, {"max-size-messages": 5, "address-full-policy": "FAIL"})
    assert raised.confirmed().acked == 8
    assert (refused.confirmed().acked, refused.nacked) == (5, 3)


def test_producer_is_never_faster_than_its_rate(queue: Callable[..., str], proton: Callable[[], ProtonClient]) -> None:
    """'By specifying such a rate, Apache ActiveMQ Artemis will ensure that producer never produces messages at a rate
    higher than that specified': yes. At most one message more than the rate passes in any second."""
    sending = proton().sender(queue(), producerMaxRate=20)
    begun = time.monotonic()
    sending.send(22)
    eventually(lambda: sending.accepted == 22, "the messages of a second and two more")
    assert time.monotonic() - begun > 1.0


@pytest.mark.parametrize("rate", ["0", "1.5", "-2"])
def test_rate_of_a_producer_must_be_a_positive_integer(broker: BrokerProcess, rate: str) -> None:
    """'The rate must be a positive integer to enable this functionality ... Setting this to -1 disables rate limited
    flow control. The default value is -1': yes; anything else is refused."""
    said = run(broker, "users", "set", "nobody", f"producerMaxRate={rate}", "--each-producer", code=1)
    assert "producerMaxRate" in said
    run(broker, "users", "set", "nobody", "producerMaxRate=-1", "--each-producer")
    run(broker, "users", "unset", "nobody", "--each-producer")


@pytest.mark.parametrize("how", ["pattern", "client-properties"])
def test_producer_rate_comes_from_the_users_settings_as_well(
    queue: Callable[..., str], say: Say, board: Board, broker: BrokerProcess, how: str
) -> None:
    """'... the rate can be set via the ServerLocator.setProducerMaxRate(int producerMaxRate) method or alternatively
    via some of the ClientSession.createProducer() methods': yes, as link property, in the client properties of a
    connection of AMQP 0-9-1, and by the pattern of a user. Options of a URL are the client's."""
    name = queue()
    rate: dict[str, object] = {"producerMaxRate": 20}
    if how == "pattern":
        say("producer", "guest", rate)
    properties = {"product": "bare socket"} | (rate if how != "pattern" else {})
    with open_peer(broker, properties=properties) as peer:
        begun = time.monotonic()
        peer.say(publish_frames(1, "", name, b"x") * 22)
        eventually(lambda: board.depth(name) == 22, "every message")
        assert time.monotonic() - begun > 1.0
