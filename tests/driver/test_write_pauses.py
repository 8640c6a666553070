"""Pauses of clients that have recorded more than their share of what goes to the store."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.core.journal.journal import CHANGES_A_GROUP, Journal
from penstock.core.journal.write_shares import BOUND_LEAST, BOUND_MOST, LITTLE
from penstock.driver.driver import BrokerDriver
from penstock.flow.work import Steps
from penstock.management.why import unread
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support import at_once
from tests.support.driven_connection import Dialogue, Frame, cut, output_of, publish
from tests.support.restored_broker import journaled

PERSISTENT = Properties(delivery_mode=2)
BODY = bytes(100_000)


def ring(driver: BrokerDriver, name: str) -> Dialogue:
    """Return a client with a durable queue of five messages that drops the oldest."""
    client = Dialogue(driver)
    client.say(method_frame(1, spec.QUEUE_DECLARE, queue=name, durable=True, arguments={"x-max-length": 5}))
    write(driver)
    client.listen()
    return client


def journal_of(driver: BrokerDriver) -> Journal:
    journal = driver.broker.journal
    assert journal is not None
    return journal


def write(driver: BrokerDriver) -> int:
    """Write what is gathered; returns the bytes of the rows."""
    journal = journal_of(driver)
    commit = at_once.encode(journal, journal.take(), 0.0)
    journal.written()
    return sum(len(row.data) for row in commit.rows)


def flood(client: Dialogue, name: str, most: int = 1000) -> int:
    """Publish until the connection is paused; returns the number of messages."""
    for number in range(most):
        if client.connection.busy:
            return number
        client.driver.scheduler.begin_turn()
        client.driver.scheduler.receive(client.connection, publish(name, BODY, properties=PERSISTENT))
        client.driver.run_turn()
    return most


def answers(client: Dialogue) -> list[str]:
    frames: list[Frame] = cut(output_of(client.connection))
    return [decode_method(payload).name for kind, _, payload in frames if kind == spec.FRAME_METHOD]


def test_publisher_to_a_ring_is_paused_at_its_share_and_goes_on_when_it_is_taken() -> None:
    driver = journaled()
    hog = ring(driver, "ring")
    sent = flood(hog, "ring")
    assert sent * len(BODY) <= BOUND_MOST // 4 + 2 * len(BODY)
    driver.scheduler.receive(hog.connection, publish("ring", b"later", properties=PERSISTENT))
    assert hog.connection.input_paused
    assert write(driver) < 6 * len(BODY), "messages that have left the ring are not written"
    assert not hog.connection.busy
    driver.scheduler.begin_turn()
    driver.serve(driver.broker.now)
    queue = driver.broker.vhosts["/"].queues["ring"]
    assert queue.ready_queue.messages()[-1].content.endswith(b"later" + bytes([spec.FRAME_END]))


def test_other_connection_of_the_same_user_is_not_paused_by_a_flood() -> None:
    driver = journaled()
    hog, other = ring(driver, "ring"), ring(driver, "other").confirm()
    flood(hog, "ring")
    driver.scheduler.begin_turn()
    driver.scheduler.receive(other.connection, publish("other", bytes(LITTLE // 2), properties=PERSISTENT))
    assert not other.connection.busy
    write(driver)
    driver.run_turn()
    assert answers(other) == ["basic.ack"]


def test_durable_declarations_count_and_pause_their_connection() -> None:
    driver = journaled()
    hog = Dialogue(driver)
    declared = 0
    while not hog.connection.busy:
        driver.scheduler.begin_turn()
        frame = method_frame(1, spec.QUEUE_DECLARE, queue=f"q{declared}", durable=True, no_wait=True)
        driver.scheduler.receive(hog.connection, frame)
        declared += 1
        assert declared <= 1000
    assert declared > 100
    while hog.connection.busy:
        write(driver)
    assert len(driver.broker.vhosts["/"].queues) == declared


def test_store_that_cannot_be_written_pauses_no_client() -> None:
    driver = journaled()
    hog = ring(driver, "ring")
    flood(hog, "ring")
    assert hog.connection.busy
    driver.broker.gates.disk_fails("no room")
    assert not hog.connection.busy
    driver.scheduler.begin_turn()
    driver.scheduler.receive(hog.connection, publish("ring", b"held", properties=PERSISTENT))
    assert not hog.connection.busy
    assert hog.connection.pausing.budget.messages == 1, "it waits at the gate of the store"


def test_connection_that_ends_while_it_is_paused_leaves_nothing_behind() -> None:
    driver = journaled()
    hog = ring(driver, "ring")
    flood(hog, "ring")
    driver.disconnect(hog.connection)
    while driver.run_turn():
        pass
    write(driver)
    shares = journal_of(driver).shares
    assert (int(shares.bytes), shares.users, shares.has_waiting()) == (0, {}, False)


def test_why_names_unwritten_changes_of_a_paused_connection() -> None:
    driver = journaled()
    hog = ring(driver, "ring")
    flood(hog, "ring")
    share = hog.connection.origin
    assert share is not None
    assert hog.connection.waits_for_store()
    told = f"{hog.connection.name()} is not read: {share.writes.bytes:,} bytes of its changes are not in the store yet"
    assert unread(hog.connection).startswith(told)


@pytest.mark.parametrize("is_given_up", [False, True], ids=["goes on", "given up"])
def test_connection_paused_within_a_large_body_goes_on_with_the_next_transaction(is_given_up: bool) -> None:
    driver = journaled()
    driver.broker.large.stores = True
    hog = ring(driver, "ring")
    frames = publish("ring", bytes(2 * BOUND_LEAST), properties=PERSISTENT)
    shares = journal_of(driver).shares
    shares.bound = BOUND_LEAST
    for sent in range(0, BOUND_LEAST, 131_072):
        driver.scheduler.begin_turn()
        driver.scheduler.receive(hog.connection, frames[sent : sent + 131_072])
    assert shares.has_waiting()
    if is_given_up:
        driver.disconnect(hog.connection)
        while driver.run_turn():
            pass
    assert journal_of(driver).has_urgent()
    write(driver)
    assert not shares.has_waiting()
    assert journal_of(driver).is_idle() or not is_given_up


def test_end_of_very_many_durable_bindings_waits_for_transactions_and_ends() -> None:
    driver = journaled()
    client = Dialogue(driver)
    journal, vhost = journal_of(driver), driver.broker.vhosts["/"]
    journal.shares.bound = BOUND_LEAST
    queue = vhost.declare_queue("q", {}, True, False, None, None)
    for number in range(5_000):
        vhost.bind("amq.direct", queue, None, f"k{number}", {})
    while not journal.is_idle():
        write(driver)
    client.say(method_frame(1, spec.QUEUE_DELETE, queue="q", no_wait=True))
    transactions, most = 0, 0
    while driver.broker.endings.pending():
        assert not driver.broker.turns.chores.pending(), "it waits, and takes no turns"
        transactions += 1
        changes = sum(len(group.changes) for group in journal.take())
        journal.written()
        most = max(most, changes)
        while driver.run_turn():
            pass
    assert transactions > 10
    assert most <= 4 * CHANGES_A_GROUP
    assert vhost.bindings.count == 0


def test_job_without_a_connection_waits_for_transactions_between_its_steps() -> None:
    driver = journaled()
    vhost = driver.broker.vhosts["/"]
    journal_of(driver).shares.bound = BOUND_LEAST

    def declare() -> Steps[None]:
        for number in range(1_000):
            vhost.declare_queue(f"q{number}", {}, True, False, None, None)
            driver.broker.work.done += 10
            yield

    driver.scheduler.start(declare())
    transactions = 0
    while len(vhost.queues) < 1_000:
        while driver.run_turn():
            pass
        assert not driver.scheduler.has_jobs()
        write(driver)
        transactions += 1
    assert transactions > 5
