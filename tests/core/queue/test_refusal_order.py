"""Ordered refusals: exactly the next publishes are refused, also in the fast path."""

from __future__ import annotations

from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.core.queue.refusal_order import RefusalOrder
from tests.support.broker_fixture import House
from tests.support.topology import resolve

CHARGE = 300


class Line(House):
    """A house with two queues, and one producer with confirms."""

    def __init__(self, **arguments: object) -> None:
        super().__init__()
        self.queue("q", **arguments)
        self.queue("other")
        self.q: Queue = self.vhost.queues["q"]
        self.other: Queue = self.vhost.queues["other"]
        self.writer: Producer = self.producer("p")

    def put(self, count: int, queue: str = "q") -> None:
        route = resolve(self.vhost, "", queue)
        for number in range(count):
            self.writer.publish(route, b"%d" % number, CHARGE)

    def outcomes(self) -> list[bool]:
        """Whether each publish was confirmed, by number."""
        found: dict[int, bool] = {}
        for outcome in self.writer.confirms.take():
            found.update(dict.fromkeys(range(int(outcome.first), int(outcome.last) + 1), bool(outcome.confirmed)))
        return [found[number] for number in sorted(found)]


def test_next_publishes_are_refused_and_later_publishes_are_not() -> None:
    line = Line()
    line.put(2)
    order = RefusalOrder([line.q], 3)
    order.begin(line.broker)
    line.put(5)
    assert line.outcomes() == [True, True, False, False, False, True, True]
    assert (int(line.q.messages), int(line.q.counters.refused), order.left()) == (4, 3, 0)
    assert [message.content for message in line.q.ready_queue.messages()] == [b"0", b"1", b"3", b"4"]


def test_order_counts_all_queues_together() -> None:
    line = Line()
    order = RefusalOrder([line.q, line.other], 2)
    order.begin(line.broker)
    line.put(1, "q")
    line.put(3, "other")
    assert line.outcomes() == [False, False, True, True]
    assert (int(line.q.messages), int(line.other.messages)) == (0, 2)


def test_cancelled_order_leaves_the_fast_path_and_the_length_limit() -> None:
    line = Line(**{"max-length": 2, "overflow": "reject"})
    before = int(line.q.fast_path_max_messages)
    order = RefusalOrder([line.q], 3)
    order.begin(line.broker)
    assert line.q.fast_path_max_messages < 0
    line.put(1)
    assert line.q.length is not None
    text = "an order to refuse 3 publishes, of which 2 are left, and 0 messages ready, of a max-length of 2 messages"
    assert line.q.length.clause().startswith(text)
    order.end(line.broker)
    assert int(line.q.fast_path_max_messages) == before
    line.put(3)
    assert line.outcomes() == [False, True, True, False]


def test_full_queue_holds_publishes_and_refuses_ordered_refusals() -> None:
    line = Line(**{"capacity-messages": 1})
    line.put(1)
    order = RefusalOrder([line.q], 1)
    order.begin(line.broker)
    line.put(1)
    assert order.left() == 1
    assert int(line.writer.hold_budget.messages) == 1
    line.q.purge(line.broker.now)
    line.broker.run(1000)
    assert order.left() == 0
    assert int(line.q.messages) == 0
