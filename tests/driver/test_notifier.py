"""Effects as log lines: each once, and losses once a second."""

from __future__ import annotations

import re

from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.blocked_producers import CHANNEL, QUEUES, BlockedProducers
from tests.support.driven_connection import Dialogue, publish
from tests.support.log_lines import texts


def test_channel_that_two_gates_block_is_logged_once() -> None:
    play = BlockedProducers()
    for queue in QUEUES:
        for _ in range(4):
            play.do("publish", 0, queue)
    play.do("purge", 0, "orders")
    assert len([line for line in play.lines if "CHN-100" in line]) == 1
    play.do("purge", 0, "audit")
    told = [line for line in play.lines if "CHN-100" in line]
    assert [re.sub(CHANNEL, "P", line) for line in told] == [
        "[P] CHN-1005 : Flow Control Enforced (Queue orders)",
        "[P] CHN-1006 : Flow Control Removed",
    ]


def test_losses_are_logged_once_a_second_and_all_are_counted(driver: BrokerDriver) -> None:
    peer = Dialogue(driver).declare("ring", capacity_messages=2, overflow="drop-head")
    peer.declare("short", capacity_messages=1, overflow="reject")
    driver.log_queue.take()
    for count in (1000, 500):
        for queue in ("ring", "short"):
            peer.say(b"".join(publish(queue, b"x") for _ in range(count)))
        assert texts(driver.log_queue) == []
        driver.tick()
        refused = count - (1 if count == 1000 else 0)
        assert sorted(texts(driver.log_queue)) == [
            f"[con:1(guest@127.0.0.1:1/)/ch:1] PST-1015 : Publishes Refused : {refused:,} messages, "
            f"{refused * 243:,} bytes : queue 'short' holds 1 message, 243 bytes; its capacity is 1 message and its "
            "overflow policy reject",
            f"[vh(/)/qu(ring)] QUE-1005 : Dropped : {count - (2 if count == 1000 else 0):,} messages, "
            "Depth : 486 bytes, 2 messages, Capacity : -1 bytes, 2 messages",
            f"[vh(/)/qu(short)] QUE-1005 : Dropped : {refused:,} messages, "
            "Depth : 243 bytes, 1 messages, Capacity : -1 bytes, 1 messages",
        ]
        driver.tick()
        assert texts(driver.log_queue) == []
    peer.say(publish("ring", b"x") + method_frame(1, spec.QUEUE_DELETE, queue="ring"))
    driver.tick()
    assert texts(driver.log_queue) == [
        "[vh(/)/qu(ring)] QUE-1005 : Dropped : 1 messages, Depth : 0 bytes, 0 messages, Capacity : -1 bytes, 2 messages"
    ], "a queue that is gone has not taken its count along"
