"""The document "Producer Flow Control" of the Qpid Java broker, which was the first to have it in AMQP 0-9-1.

The first line of each docstring is a sentence of the document; after it comes the verdict.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pytest
from pamqp import commands, frame

from penstock.client.errors import ChannelClosed, ConnectionClosed
from tests.support.brokers import BrokerProcess, eventually, serving
from tests.support.checklist_clients import OVERHEAD, Board, Producer, Taker
from tests.support.commands import run
from tests.support.experiments import TEST
from tests.support.raw_client import CAPABILITIES, open_peer, publish_frames, raw_frame

if TYPE_CHECKING:
    from tests.support.proton_links import ProtonClient

pytestmark = pytest.mark.clients

PAIR = {"capacity": 1000, "flowResumeCapacity": 800, "hold-deadline": 0}
STOP_5 = {"stop-messages": 5, "resume-messages": 3, "hold-deadline": 0}
QUEUES = """
<virtualhosts><virtualhost><name>localhost</name><localhost><queues>
  <capacity>20971520</capacity><flowResumeCapacity>16777216</flowResumeCapacity>
  <queue><name>test</name>
    <test>
      <exchange>amq.direct</exchange><capacity>10485760</capacity><flowResumeCapacity>8388608</flowResumeCapacity>
    </test>
  </queue>
</queues></localhost></virtualhost></virtualhosts>
"""
"""The two examples of the document in one file; the default has other numbers, so that they can be told apart."""


def test_producer_is_flow_controlled_when_it_sends_to_an_overfull_queue(
    queue: Callable[..., str], producer: Callable[..., Producer]
) -> None:
    """'Flow control is enabled on a producer when it sends a message to a Queue which is "overfull"': yes. A producer
    that does not send to it goes on."""
    full, free = queue(STOP_5), queue()
    producer(full).send(6).settled()
    assert producer(full).send().settled().waiting == 1
    assert producer(free).send().confirmed().acked == 1


def test_flow_control_is_rescinded_when_all_queues_are_underfull(
    queue: Callable[..., str], board: Board, broker: BrokerProcess
) -> None:
    """'The producer flow control will be rescinded when all Queues on which a producer is blocking become "underfull"':
    yes."""
    names = [queue(STOP_5) for _ in range(2)]
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        heard: list[str] = []
        connection.add_on_connection_blocked_callback(lambda *_: heard.append("blocked"))
        connection.add_on_connection_unblocked_callback(lambda *_: heard.append("unblocked"))
        channel = connection.channel()
        for name in names:
            for _ in range(6):
                channel.basic_publish("", name, b"x")
        eventually(lambda: connection.process_data_events(0) or "blocked" in heard, "the notice")
        board.keeper.queue_purge(names[0])
        for _ in range(2):
            channel.basic_qos(prefetch_count=0)
        connection.process_data_events(0)
        assert "unblocked" not in heard
        board.keeper.queue_purge(names[1])
        eventually(lambda: connection.process_data_events(0) or "unblocked" in heard, "the end")


def test_queue_is_overfull_above_its_capacity(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'A Queue is defined as overfull when the size (in bytes) of the messages on the queue exceeds the "capacity" of
    the Queue': yes. The message that passes it goes in, also one that is larger than the capacity by itself."""
    name, other = queue(PAIR), queue({"x-qpid-capacity": 1000, "hold-deadline": 0})
    publishing = producer(name).send(2, OVERHEAD + 500).confirmed()
    assert not board.stopped(name)
    publishing.send().settled()
    assert board.stopped(name)
    large = producer(other).send(1, OVERHEAD + 1200).settled()
    assert (board.depth(other), board.stopped(other), large.waiting) == (1, True, 1)


def test_depth_of_a_java_brokers_queue_has_a_bound(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'A Queue is defined as overfull when the size ... exceeds the "capacity"': yes, and on purpose there is a bound
    above it, a quarter more and at least 16 KiB (decision 93): what would pass it is held."""
    name = queue(PAIR)
    producer(name).send(300, OVERHEAD + 100).settled()
    assert board.marks(name)[0] == (None, 1000 + 16 * 1024)
    assert (board.depth(name), board.held(name)) == (173, 1)


def test_queue_is_underfull_at_its_resume_capacity(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker], board: Board
) -> None:
    """'A Queue becomes "underfull" when its size becomes less than the "flowResumeCapacity"': yes, or equal to it, as
    in the code of the design page and of that broker."""
    name = queue(PAIR)
    publishing, taking = producer(name).send(3, OVERHEAD + 400).settled(), taker(name)
    assert board.stopped(name), "1,200"
    taking.take(1)
    assert not board.stopped(name), "800"
    publishing.confirmed()


def test_configuration_of_a_queue_is_read(tmp_path: Path, broker: BrokerProcess) -> None:
    """'Configuring a Queue to use flow control' (XML with `capacity` and `flowResumeCapacity` of a queue, and of all
    queues of a virtual host): yes, as `penstock definitions import --from qpid-java virtualhosts.xml`."""
    file = tmp_path / "virtualhosts.xml"
    file.write_text(QUEUES)
    found = json.loads(run(broker, "definitions", "import", str(file), "--from", "qpid-java", "--output", "-"))
    said = json.dumps(found)
    for value in (10485760, 8388608, 20971520, 16777216):
        assert str(value) in said


def test_default_of_all_queues_of_a_virtual_host_is_a_policy(queue: Callable[..., str], board: Board) -> None:
    """'The default for all queues on a virtual host can also be set': yes, as a policy for `.*`. Scope `vhost` has the
    sum of all queues here, so it refuses `capacity` with that advice."""
    definition = json.dumps({"capacity": 10485760, "flowResumeCapacity": 8388608})
    run(board.broker, "policies", "set", "seeds", "^seeds[.]java", definition)
    assert board.marks(queue(prefix="seeds.java."))[1:] == ((None, 10485760), (None, 8388608))
    run(board.broker, "policies", "clear", "seeds")
    assert "policies set" in run(board.broker, "set", "vhost", "/", "capacity=10485760", code=1)


@pytest.mark.parametrize("name", ["capacity", "x-qpid-capacity"])
def test_resume_capacity_is_the_capacity_by_default(queue: Callable[..., str], board: Board, name: str) -> None:
    """'Where no flowResumeCapacity is set, the flowResumeCapacity is set to be equal to the capacity': yes."""
    assert board.marks(queue({name: 1000}))[1:] == ((None, 1000), (None, 1000))


@pytest.mark.parametrize("name", ["capacity", "x-qpid-capacity"])
def test_capacity_of_0_is_no_limit(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board, name: str
) -> None:
    """'Where no capacity is set, capacity is defaulted to 0 meaning there is no capacity limit': yes, 0 is no limit. On
    purpose no queue is without one by default (decision 92)."""
    unlimited = queue({name: 0})
    assert producer(unlimited).send(3, 10_000).confirmed().acked == 3
    assert board.marks(unlimited)[0] == (None, None)
    assert board.marks(queue())[0] == (None, 100 * 1024 * 1024)


def test_log_has_the_lines_of_the_document(broker: BrokerProcess) -> None:
    """'... QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000 ... CHN-1005 : Flow Control Enforced (Queue
    MyQueue) ... QUE-1004 : Underfull : Size : 600 bytes, Resume Capacity : 800 ... CHN-1006 : Flow Control Removed':
    yes, with the numbers of messages behind them, as in today's Broker-J."""
    board = Board(broker, TEST)
    board.keeper.queue_declare("MyQueue", arguments=PAIR)
    publishing, taking = Producer(broker, "MyQueue", vhost=TEST), Taker(broker, "MyQueue", vhost=TEST)
    publishing.send(4, OVERHEAD + 300).settled()
    subject = f"[vh(/{TEST})/qu(MyQueue)] "
    (line,) = board.logged(f"{subject}QUE-1003", 1)
    assert line.endswith("Overfull : Size : 1,200 bytes, Capacity : 1,000, Messages : 4, Message Capacity : -1")
    (line,) = board.logged("CHN-1005 : Flow Control Enforced (Queue MyQueue)", 1)
    channel = line.partition("] CHN-1005")[0].partition("[con:")[2]
    assert channel.endswith(f"/{TEST})/ch:1")
    taking.take(2)
    publishing.confirmed()
    (line,) = board.logged(f"{subject}QUE-1004", 1)
    assert line.endswith("Underfull : Size : 600 bytes, Resume Capacity : 800, Messages : 2, Message Capacity : -1")
    board.logged(f"[con:{channel}] CHN-1006 : Flow Control Removed", 1)
    board.keeper.queue_delete("MyQueue")
    for each in (board, publishing, taking):
        each.close()


def test_log_may_have_the_form_of_the_document(tmp_path: Path) -> None:
    """'MESSAGE [vh(/test)/qu(MyQueue)] [vh(/test)/qu(MyQueue)] QUE-1003 : Overfull': yes, as `log-format = "qpid"`."""
    with serving(tmp_path, "--log-format", "qpid") as process:
        producer = Producer(process, "MyQueue")
        producer.connection.channel().queue_declare("MyQueue", arguments=STOP_5)
        producer.send(6).settled()
        (line,) = process.await_logged("QUE-1003")
        assert line.startswith("MESSAGE [vh(/)/qu(MyQueue)] [vh(/)/qu(MyQueue)] QUE-1003 : Overfull : Size : ")
        producer.close()


def test_log_has_a_line_for_each_channel(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'Then for each channel which becomes blocked upon the overful queue a log message similar to the following is
    produced': yes, and 'for every channel which becomes unblocked': yes."""
    name = queue(STOP_5)
    producers = [producer(name).send(2).settled() for _ in range(5)]
    lines = board.logged(f"CHN-1005 : Flow Control Enforced (Queue {name})", 3)
    board.keeper.queue_purge(name)
    for each in producers:
        each.confirmed()
    for line in lines:
        board.logged(line.partition("[con:")[2].partition("CHN-1005")[0] + "CHN-1006 : Flow Control Removed", 1)


# Disk quota


@pytest.fixture
def quota(storing: BrokerProcess) -> Iterator[Board]:
    """A broker with the quota of the document, a thousandth of it, and a durable queue."""
    board = Board(storing)
    board.control.set("vhost", "/", {"storeOverfullSize": 50_000, "storeUnderfullSize": 45_000, "hold-deadline": 0})
    board.keeper.queue_declare("quota", durable=True)
    yield board
    board.control.unset("vhost", "/")
    board.keeper.queue_delete("quota")
    board.close()


def overfull(quota: Board) -> bool:
    """Tell whether a gate before the disk is closed."""
    return any(not gate["open"] for gate in quota.control.status()["disk"]["gates"])


def fill(quota: Board) -> Producer:
    """Publish persistent messages one by one until the quota's gate is closed."""
    publishing = Producer(quota.broker, "quota")
    while not overfull(quota):
        publishing.send(1, 1000, persistent=True)
        eventually(lambda: publishing.settled().waiting == 0 or overfull(quota), "a confirmation, or the gate")
    return publishing


def test_quota_blocks_producers_and_consumers_unblock_them(quota: Board) -> None:
    """'When consumers consume the messages, causing disk space usage to falls below the underflow limit, the producers
    are unblocked and continue working as normal': yes. 'overfull limit' and 'underfull limit': yes, as
    `storeOverfullSize` and `storeUnderfullSize`, or `disk-overfull` and `disk-underfull`."""
    publishing, taking = fill(quota), Taker(quota.broker, "quota")
    assert 49 <= publishing.sent <= 52
    left = publishing.sent
    while overfull(quota):
        assert taking.take(1)
        left -= 1
    assert 43 <= left <= 46
    publishing.confirmed()
    taking.rest()
    for each in (publishing, taking):
        each.close()


def test_quota_blocks_producers_of_stored_messages(quota: Board) -> None:
    """'This functionality blocks all producers on reaching the disk overflow limit': on purpose only those of
    persistent messages into durable queues, for the others take no room on the disk (decision 27)."""
    publishing = fill(quota)
    quota.keeper.queue_declare("transient")
    for queue in ("quota", "transient"):
        passing = Producer(quota.broker, queue)
        assert passing.send(5, persistent=queue == "transient").confirmed().acked == 5
        passing.close()
    quota.keeper.queue_delete("transient")
    publishing.close()


@pytest.mark.parametrize("names", [("overfull-size", "underfull-size"), ("storeOverfullSize", "storeUnderfullSize")])
def test_quota_has_the_names_of_the_document(storing: BrokerProcess, names: tuple[str, str]) -> None:
    """'An example of quota configuration for the BDB message store is provided below' (50000000 and 45000000): yes, by
    the names of its XML and by today's."""
    board = Board(storing)
    board.control.set("vhost", "/", dict(zip(names, (50_000_000, 45_000_000), strict=True)))
    shown = run(storing, "show", "vhost", "/")
    assert re.search(r"disk-overfull +50 MB", shown)
    assert re.search(r"disk-underfull +45 MB", shown)
    board.control.unset("vhost", "/")
    board.close()


def test_transactions_beyond_the_quota_wait(quota: Board) -> None:
    """'If several concurrent transactions are started before the limit is reached, which collectively cause the limit
    to be exceeded, the broker may allow all of them to be committed': yes, better. Only the one that passes the limit
    is committed; the next waits at its commit."""
    channels = []
    for _ in range(3):
        connection = pika.BlockingConnection(pika.URLParameters(quota.broker.url))
        channels.append((connection, connection.channel()))
    answers: list[list[object]] = [[] for _ in channels]
    for (_, channel), answered in zip(channels, answers, strict=True):
        channel.tx_select()
        for _ in range(60):
            channel.basic_publish("", "quota", b"x" * 758, pika.BasicProperties(delivery_mode=2))
        channel._impl.tx_commit(callback=answered.append)
        channel.connection.process_data_events(0)
        eventually(lambda: quota.depth("quota") >= 60, "the first commit")
    waiting = channels[2][0]
    for _ in range(3):
        waiting.process_data_events(0)
        quota.control.status()
    assert (answers[2], quota.depth("quota")) == ([], 60)
    quota.keeper.queue_purge("quota")
    eventually(lambda: channels[1][0].process_data_events(0) or answers[1], "the second commit")
    quota.keeper.queue_purge("quota")
    eventually(lambda: channels[2][0].process_data_events(0) or answers[2], "the third commit")
    for connection, _ in channels:
        connection.close()


def test_log_has_lines_of_the_overfull_store(quota: Board) -> None:
    """'MST-1008 : Store overfull, flow control will be enforced', 'MST-1009 : Store overfull condition cleared': yes,
    once each."""
    texts = ["MST-1008 : Store overfull, flow control will be enforced", "MST-1009 : Store overfull condition cleared"]
    before = [len(quota.broker.logged(f"[vh(/)/ms(store)] {text}")) for text in texts]
    publishing = fill(quota)
    quota.logged(f"[vh(/)/ms(store)] {texts[0]}", before[0] + 1)
    quota.keeper.queue_purge("quota")
    publishing.confirmed()
    quota.logged(f"[vh(/)/ms(store)] {texts[1]}", before[1] + 1)
    publishing.close()


# Client impact


def test_client_is_instructed_not_to_send(
    queue: Callable[..., str], proton: Callable[[], ProtonClient], broker: BrokerProcess
) -> None:
    """'If a producer sends to a queue which is overfull, the broker will respond by instructing the client not to send
    any more messages': yes. `connection.blocked` with the reason, `channel.flow` to who obeys it, and no credit."""
    name = queue(STOP_5)
    client = {"product": "bare socket", "capabilities": CAPABILITIES | {"channel.flow": True}}
    with open_peer(broker, properties=client) as peer:
        peer.say(publish_frames(1, "", name, b"x") * 6)
        seen = [peer.read_method()[1] for _ in range(2)]
        (blocked,) = [each for each in seen if isinstance(each, commands.Connection.Blocked)]
        assert f"queue {name}: 6 messages > stop 5" in str(blocked.reason)
        assert [each.active for each in seen if isinstance(each, commands.Channel.Flow)] == [False]
    assert proton().sender(name).credit == 0


def test_refused_message_is_not_in_the_queue(
    queue: Callable[..., str], producer: Callable[..., Producer], proton: Callable[[], ProtonClient], board: Board
) -> None:
    """'If such a JMSException is thrown, the message will not be sent to the broker': yes. A message that is refused at
    the deadline is not in the queue; over AMQP 1.0 none leaves the client, for it has no credit."""
    name = queue({"capacity-messages": 6, "stop-messages": 5, "resume-messages": 3, "hold-deadline": "0.2"})
    publishing = producer(name).send(8).confirmed()
    assert (publishing.acked, publishing.nacked, board.depth(name)) == (6, 2, 6)
    assert proton().sender(name).send_while_credit(5) == 0


def test_session_is_active_after_a_refusal(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board
) -> None:
    """'... however the underlying Session may still be active': yes, a channel with confirmations. One without them is
    closed (506), for nothing else can tell it of a loss."""
    arguments = {"capacity-messages": 1, "hold-deadline": "0.1"}
    name, other = queue(arguments), queue(arguments)
    publishing = producer(name).send(3).confirmed()
    assert publishing.nacked == 2
    board.keeper.queue_purge(name)
    assert publishing.send().confirmed().acked == 2
    unconfirmed = producer(other, confirms=False)
    closed = eventually(lambda: closing(unconfirmed), "its end")
    assert "506" in closed or "hold deadline" in closed


def closing(publishing: Producer) -> str:
    """Publish once more; return the reason when the broker has closed the channel."""
    try:
        publishing.send().settled()
    except (ChannelClosed, ConnectionClosed) as closed:
        return str(closed)
    return ""


def test_transaction_is_not_rolled_back_when_its_commit_is_refused(
    queue: Callable[..., str], producer: Callable[..., Producer], board: Board, broker: BrokerProcess
) -> None:
    """'... in particular if the Session is transactional then the current transaction will not be automatically rolled
    back': yes, for clients that announce `penstock.tx_commit_retry`. AMQP 0-9-1 has no such answer to `tx.commit`, so
    the channel of others is closed, and their transaction is rolled back."""
    name = queue({"capacity-messages": 5, "stop-messages": 4, "resume-messages": 4, "hold-deadline": "0.2"})
    producer(name).send(5).settled()
    capabilities = {"basic.nack": True, "penstock.tx_commit_retry": True}
    with open_peer(broker, properties={"product": "bare socket", "capabilities": capabilities}) as peer:
        peer.ask(1, commands.Tx.Select(), commands.Tx.SelectOk)
        peer.say(publish_frames(1, "", name, b"x") * 2)
        peer.send(1, commands.Tx.Commit())
        refusal = None
        while not isinstance(refusal, commands.Basic.Nack):
            kind, _, _ = (found := peer.read_frame())
            refusal = as_method(found) if kind == 1 else refusal
        board.keeper.queue_purge(name)
        peer.ask(1, commands.Tx.Commit(), commands.Tx.CommitOk)
        assert board.depth(name) == 2


def as_method(found: tuple[int, int, bytes]) -> object:
    """Return the method of a frame."""
    return frame.unmarshal(raw_frame(*found))[2]


def test_refused_message_may_be_sent_again(
    queue: Callable[..., str], producer: Callable[..., Producer], taker: Callable[..., Taker]
) -> None:
    """'Users may choose to either attempt to resend the message, or to roll back any transactional work and close the
    Session': yes, over the same channel or link."""
    name = queue({"capacity-messages": 1, "hold-deadline": "0.1"})
    publishing = producer(name).send(2).confirmed()
    assert publishing.nacked == 1
    assert taker(name).take(1) == [0]
    publishing.sent = 1
    assert publishing.send().confirmed().acked == 2
    assert taker(name).take(1) == [1]


# Older clients


def test_client_that_ignores_flow_control_is_held_all_the_same(
    queue: Callable[..., str], taker: Callable[..., Taker], board: Board, broker: BrokerProcess
) -> None:
    """'If an older client connects to the broker then the flow control commands will be ignored by it and it will not
    be blocked': yes, better. What it sends is held before the queue, and its socket is not read; nothing is lost."""
    name = queue({"capacity-messages": 10, "hold-deadline": 0})
    with open_peer(broker, properties={"product": "older client"}) as peer:
        peer.say(b"".join(publish_frames(1, "", name, str(number).encode()) for number in range(100)))
        eventually(lambda: board.held(name) == 1, "it is held")
        assert taker(name).take(100) == list(range(100))
        assert peer.is_well()
    assert board.view(name)["highest"]["messages"] == 10
