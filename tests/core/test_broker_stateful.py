"""The whole core under anything that clients may do, in any order, against the model in tests/support/model.py.

The rules are coarse on purpose (bursts, drains, small numbers of turns): single steps rarely cross a threshold twice,
and most faults of flow control need that. PENSTOCK_EXAMPLES asks for more examples than the usual ones.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.profiles import examples
from tests.support import example_counts
from tests.support.model import QueueModel
from tests.support.model_rig import FOR_EVER, Rig, Watched

EXAMPLES = int(os.environ.get("PENSTOCK_EXAMPLES", examples(1200)))
INDEX = st.integers(0, 3)
ENDINGS = ["vanish", "vanish", "say goodbye", "purge", "delete", "recover", "end of session", "unknown tag", "cancel"]
CHARGES = st.lists(st.integers(1, 20), min_size=1, max_size=9)


@st.composite
def marks(draw: st.DrawFn, least: int, most: int) -> tuple[int | None, int | None, int | None]:
    """Capacity, stop and resume in one unit."""
    if draw(st.booleans()):
        return None, None, None
    capacity = draw(st.integers(least, most))
    stop = draw(st.integers(0, capacity))
    return capacity, stop, draw(st.integers(0, stop))


@st.composite
def queues(draw: st.DrawFn) -> QueueModel:
    policy = draw(st.sampled_from(["block", "block", "block", "reject", "drop-head"]))
    messages, size = draw(marks(1, 9)), draw(marks(19, 90))
    if messages[0] is None and size[0] is None:
        messages = 4, 2, 1
    if policy == "drop-head":  # A ring has no thresholds.
        messages, size = (messages[0], None, None), (size[0], None, None)
    return QueueModel(
        "",
        policy,
        capacity=(messages[0], size[0]),
        stop=(messages[1], size[1]),
        resume=(messages[2], size[2]),
        deadline_s=draw(st.sampled_from([FOR_EVER, FOR_EVER, 1.0, 5.0])),
        ttl_s=draw(st.sampled_from([FOR_EVER, FOR_EVER, FOR_EVER, 3.0])),
    )


class Anything(RuleBasedStateMachine):
    """Producers, consumers and operators without any manners."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 100.0

    @initialize(
        queues=st.lists(queues(), min_size=2, max_size=3),
        consumers=st.lists(st.tuples(st.integers(0, 1), INDEX, st.booleans(), st.sampled_from([0, 1, 3])), max_size=2),
        producers=st.lists(st.tuples(st.booleans(), st.sampled_from([1000, 1000, 30])), min_size=2, max_size=4),
    )
    def start(
        self,
        queues: list[QueueModel],
        consumers: list[tuple[int, int, bool, int]],
        producers: list[tuple[bool, int]],
    ) -> None:
        example_counts.examples += 1
        self.rig = Rig(queues, producers)
        self.rig.broker.begin(self.now)
        for reader, index, no_ack, window in consumers:
            self.rig.consume(self.rig.readers[reader], self.queue(index), no_ack, window)

    def producer(self, index: int) -> Watched:
        return self.rig.producers[index % len(self.rig.producers)]

    def queue(self, index: int) -> int:
        return index % len(self.rig.current)

    # Producers

    @rule(index=INDEX, charges=CHARGES, to=st.integers(0, 4))
    def publish(self, index: int, charges: list[int], to: int) -> None:
        route = self.rig.routes[to % len(self.rig.routes)]
        for charge in charges:
            self.rig.publish(self.producer(index), route, charge)

    @rule(charges=st.lists(st.integers(1, 20), min_size=2, max_size=4), to=st.integers(0, 4))
    def publish_all(self, charges: list[int], to: int) -> None:
        for charge in charges:
            for index in range(len(self.rig.producers)):
                self.rig.publish(self.producer(index), self.rig.routes[to % len(self.rig.routes)], charge)

    # Consumers

    @rule(reader=st.integers(0, 1), index=INDEX, no_ack=st.booleans(), window=st.sampled_from([0, 1, 3]))
    def consume(self, reader: int, index: int, no_ack: bool, window: int) -> None:
        if len(self.rig.readers[reader].session.consumers) < 3:
            self.rig.consume(self.rig.readers[reader], self.queue(index), no_ack, window)

    @rule(turns=st.sampled_from([0, 1, 1000]), batches=st.sampled_from([1, 1000]))
    def pump(self, turns: int, batches: int) -> None:
        """What the outside does once in each pass of its loop."""
        self.rig.run(turns)
        while batches and self.rig.next_batch():
            batches -= 1
            self.rig.look()
        self.rig.look()  # What is too old goes also where there is nobody to deliver to.

    @rule(reader=st.integers(0, 1), index=INDEX, no_ack=st.booleans(), times=st.integers(1, 8))
    def get(self, reader: int, index: int, no_ack: bool, times: int) -> None:
        for _ in range(times):
            name = self.rig.current[self.queue(index)]
            assert self.rig.get(self.rig.readers[reader], name, no_ack) or not self.rig.real[name].available()
            self.rig.look()

    @precondition(lambda self: any(reader.out for reader in self.rig.readers))
    @rule(reader=st.integers(0, 1), at=st.integers(0, 9), multiple=st.booleans(), requeue=st.booleans())
    def settle(self, reader: int, at: int, multiple: bool, requeue: bool) -> None:
        tags = sorted(self.rig.readers[reader].out)
        if tags:
            self.rig.settle(self.rig.readers[reader], tags[at % len(tags)], multiple, requeue)

    @precondition(lambda self: any(reader.out for reader in self.rig.readers))
    @rule(reader=st.integers(0, 1), requeue=st.sampled_from([False, False, True]))
    def settle_all(self, reader: int, requeue: bool) -> None:
        if self.rig.readers[reader].out:
            self.rig.settle(self.rig.readers[reader], max(self.rig.readers[reader].out), True, requeue)

    # Whatever ends, and operators

    @rule(what=st.sampled_from(ENDINGS), index=INDEX, data=st.data())
    def end(self, what: str, index: int, data: st.DataObject) -> None:
        """A client goes away, or something is taken away from it."""
        rig, reader = self.rig, self.rig.readers[index % 2]
        if what == "vanish" or what == "say goodbye":
            rig.close(index % len(rig.producers), graceful=what == "say goodbye")
        elif what == "purge":
            rig.purge(self.queue(index))
        elif what == "delete":
            rig.delete(self.queue(index))
        elif what == "recover":
            rig.recover(reader)
        elif what == "end of session":
            rig.end(reader)
        elif what == "unknown tag":
            tag = data.draw(st.integers(1, reader.highest + 2))
            rig.settle(reader, tag, multiple=data.draw(st.booleans()), requeue=data.draw(st.booleans()))
        elif reader.session.consumers:
            rig.broker.cancel(reader.session, data.draw(st.sampled_from(sorted(reader.session.consumers))))
            rig.look()

    @rule(index=INDEX, capacity=st.integers(1, 9), stop=st.integers(0, 9), resume=st.integers(0, 7))
    def set_thresholds(self, index: int, capacity: int, stop: int, resume: int) -> None:
        """Capacity and thresholds in messages are set anew, in any direction, and count at once."""
        name = self.rig.current[self.queue(index)]
        model = self.rig.models[name]
        if model.capacity[0] is None or model.stop[0] is None:
            return
        capacity = max(capacity, model.depth()[0])  # What is in there stays in there.
        stop = min(stop, capacity)
        resume = min(resume, stop)
        model.capacity = capacity, model.capacity[1]
        model.stop, model.resume = (stop, model.stop[1]), (resume, model.resume[1])
        self.rig.set(
            self.queue(index), {"capacity-messages": capacity, "stop-messages": stop, "resume-messages": resume}
        )
        self.rig.look()

    @rule(turns=st.sampled_from([1, 2, 3, 5, 1000]))
    def run_turns(self, turns: int) -> None:
        self.rig.run(turns)

    @rule(seconds=st.sampled_from([0.02, 0.5, 1.0, 2.0, 6.0]), turns=st.sampled_from([0, 1, 1000]))
    def wait(self, seconds: float, turns: int) -> None:
        self.rig.run(0)  # The pass in which something came is over before time goes on.
        self.now += seconds
        self.rig.broker.begin(self.now)
        self.rig.run(turns)

    @rule()
    def drain(self) -> None:
        """Everything that can be had is taken and settled, once, with the turns that follow."""
        for name in self.rig.current:
            while self.rig.get(self.rig.readers[0], name, no_ack=True):
                self.rig.look()
        self.rig.run(1000)

    def teardown(self) -> None:
        """When all is drained, everyone has passed; when all have gone, nothing is left."""
        if not hasattr(self, "rig") or not self.rig.sound:
            return
        rig = self.rig
        for reader in rig.readers:
            rig.end(reader)
        for _ in range(1000):
            self.now += 0.003
            rig.broker.begin(self.now)
            self.drain()
            if not rig.waiting() and not any(rig.models[name].copies for name in rig.current):
                break
        assert not rig.waiting(), "livelock or lost wake-up: all is drained, and some still wait"
        for producer in rig.everyone():
            assert not producer.model.open, f"{producer.model.name} was never told of {list(producer.model.open)}"
        assert all(queue.gate.open for queue in rig.real.values())
        drained = [rig.real[name] for name in rig.current]
        assert all((queue.messages, queue.bytes) == (0, 0) for queue in drained), "drained, and still deep"
        for index in range(len(rig.producers)):
            rig.close(index, graceful=False)
        assert not rig.leaving
        assert rig.broker.closed_session_budget.messages == rig.broker.closed_session_budget.bytes == 0
        rig.broker.begin(self.now + 0.01)
        rig.run(0)  # Nobody is waited for any more who was about to come back.
        mortal = any(rig.models[name].ttl_s != FOR_EVER for name in rig.current)
        assert mortal or rig.broker.next_deadline() is None, "somebody who went away is still to be looked at"
        rig.broker.begin(self.now + 10.0)
        rig.run(0)
        assert rig.broker.next_deadline() is None, "an empty queue is still to be looked at"


TestAnything = Anything.TestCase
TestAnything.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # A failure is shown as it was found: shrinking takes minutes that a shared machine lacks.
    suppress_health_check=list(HealthCheck),
)
