"""Log lines: each crossing once, in the words of each kind of gate, and the same as fields."""

from __future__ import annotations

import logging
import re
from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from penstock.connections.log_line import LogLine
from penstock.core.effects import NotRetained
from penstock.core.queue.context import RetentionGap
from penstock.management.gate_lines import not_retained
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.blocked_producers import CHANNEL, QUEUES, BlockedProducers
from tests.support.driven_connection import Dialogue, make_driver, publish
from tests.support.log_lines import texts
from tests.support.retaining_queue import Keeper

WHAT = ["publish"] * 12 + ["get"] * 4 + ["purge", "delete", "wait", "leave"]


OPERATIONS = st.tuples(st.sampled_from(WHAT), st.integers(0, 2), st.sampled_from([*QUEUES, "both"]))
"""What happens, to which producer (or how often, or how long), and where."""


@given(st.lists(OPERATIONS, min_size=50, max_size=150))
def test_gate_crossing_is_logged_once_and_in_turn(operations: list[tuple[str, int, str]]) -> None:
    play = BlockedProducers()
    for operation in operations:
        play.do(*operation)
    play.do("wait", 1, "both")
    play.driver.tick()
    play.lines += texts(play.driver.log_queue)
    for queue in QUEUES:
        told = [line.split(" : ")[0][-8:] for line in play.lines if line.startswith(f"[vh(/)/qu({queue})] QUE-100")]
        assert told == ["QUE-1003", "QUE-1004"] * (len(told) // 2) + ["QUE-1003"] * (len(told) % 2)
        sums = re.findall(rf"qu\({queue}\)\] PST-1022 : Closed Briefly : (\d+) times", "\n".join(play.lines))
        summed = sum(map(int, sums))
        assert told.count("QUE-1003") + summed == play.crossings[queue] + play.closings(queue)
    channels = defaultdict(list)
    for line in play.lines:
        if "] CHN-100" in line:
            channels[line.partition("]")[0]].append(line.split("] ")[1][:8])
    for told in channels.values():
        assert told == ["CHN-1005", "CHN-1006"] * (len(told) // 2) + ["CHN-1005"] * (len(told) % 2)
    blocked = [name for name, told in channels.items() if len(told) % 2]
    now_blocked = [peer for peer in play.producers if peer.connection.reported_blocks]
    assert len(blocked) == len(now_blocked)


def test_client_that_stops_and_starts_its_deliveries_is_logged_once_each() -> None:
    driver = make_driver()
    peer = Dialogue(driver)
    driver.log_queue.take()
    for active in (False, False, True, True, False):
        assert peer.names(method_frame(1, spec.CHANNEL_FLOW, active=active)) == ["channel.flow-ok"]
    told = texts(driver.log_queue)
    assert [line.partition("] ")[2] for line in told] == [
        "CHN-1002 : Flow Stopped",
        "CHN-1002 : Flow Started",
        "CHN-1002 : Flow Stopped",
    ]
    assert re.fullmatch(rf"\[{CHANNEL}\] CHN-1002 : Flow Stopped", told[0])


def test_log_line_has_its_values_as_fields() -> None:
    play = BlockedProducers()
    notes: list[LogLine] = []
    for _ in range(4):
        play.producers[0].say(publish("orders", b"x"))
        notes += play.driver.log_queue.take()
    closed, blocked = [note for note in notes if not str(note.fields["id"]).startswith("CON-")]
    gate = {"kind": "queue", "gate": "orders", "vhost": "/", "queue": "orders"}
    assert closed.fields == {"id": "QUE-1003", **gate, "messages": 4, "bytes": 972}
    assert blocked.fields == {"id": "CHN-1005", "producer": "con:2(guest@127.0.0.1:1/)/ch:1", **gate}
    record = logging.getLogger("penstock").makeRecord(
        "penstock", logging.INFO, "", 0, closed.text, (), None, extra=closed.fields
    )
    assert (record.__dict__["id"], record.__dict__["queue"]) == ("QUE-1003", "orders")
    assert record.getMessage() == closed.text


def test_gap_of_retention_is_a_line_at_its_beginning_and_its_end() -> None:
    house = Keeper()
    gap = RetentionGap(house.queue, "disk store: no space left", 90.0)
    begun = not_retained(NotRetained(gap, 90.0))
    gap.messages, gap.bytes, gap.until, gap.ended = 20, 6000, 98.0, True
    ended = not_retained(NotRetained(gap, 100.0))
    assert [each.text for each in (begun, ended)] == [
        "[vh(/)/qu(q)] PST-1031 : Not Retained : disk store: no space left",
        "[vh(/)/qu(q)] PST-1032 : Retained Again : 20 messages, 6,000 bytes, settled 10.0 to 2.0 s ago were not",
    ]
