"""The comparison of a real broker with the model, after every step: everything that can be seen is looked at."""

from __future__ import annotations

from itertools import count

from penstock.core.broker import Broker
from penstock.core.effects import Blocked, CloseSession, Departed, GateChanged, Unblocked
from penstock.core.publish.hold_room import HoldBudget
from penstock.core.publish.producer import Producer
from penstock.core.queue.queue import Queue
from penstock.flow.gate import DEADLINE, Gate, GateTransition
from tests.support import example_counts
from tests.support.model import EARLY_S, ProducerModel, Publish, QueueModel, Seen

LARGEST = 20
"""The largest charge that the tests publish, in bytes."""


class Watched(Producer):
    """A producer that says when it has a turn, so that fairness can be judged by what happens and not by tickets."""

    def __init__(self, rig: Looking, model: ProducerModel, bound: int) -> None:
        super().__init__(rig.broker, model.name, HoldBudget(bound))
        self.rig = rig
        self.model = model
        self.confirming = model.confirming

    def take_turn(self, now: float) -> int:
        if any(not queue.deleted for queue in self.outbox[0].queues):  # Otherwise it takes no room from anybody.
            charge = int(self.outbox[0].charge)
            self.rig.passes(self, charge, [other for other in self.rig.waiting() if self.rig.could_go(other)])
            self.model.passed_before = int(self.unturned_bytes)
        return super().take_turn(now)

    def release(self, gate: Gate, now: float) -> int:
        passed = super().release(gate, now)
        self.model.passed_before += passed
        return passed


def waits_for_another(producer: Watched) -> bool:
    """Whether its turn is given a moment later, for somebody who is about to come back; a timer sees to that."""
    gate = producer.gate
    return gate is not None and bool(gate.returning) and gate.timer is not None and gate.timer.due != float("inf")


class Looking:
    """What the rig's steps end with."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.models: dict[str, QueueModel] = {}
        self.real: dict[str, Queue] = {}
        self.producers: list[Watched] = []
        self.leaving: list[Watched] = []
        self.sound = True
        """False from the beginning of a step until a comparison went well: after a failure, nothing says more."""
        self._numbers = count(1)
        self._departed: list[Watched] = []
        self._crossings: list[GateTransition] = []
        self._told: list[GateTransition] = []

    def everyone(self) -> list[Watched]:
        return [*self.producers, *self.leaving]

    def model_of(self, queue: Queue) -> QueueModel:
        return next(self.models[name] for name in self.real if self.real[name] is queue)

    def waiting(self) -> list[Watched]:
        return [producer for producer in self.everyone() if producer.outbox]

    # Fairness

    def room(self, producer: Watched) -> bool:
        """Whether the road of its next message is open now, and has room for it; in the test's own words."""
        held = producer.outbox[0]
        for queue in held.queues:
            model = self.model_of(queue)
            if model.deleted:
                continue
            capacity = model.capacity
            over = capacity[0] is not None and queue.messages + 1 > capacity[0]
            over = over or (capacity[1] is not None and queue.bytes + held.charge > capacity[1])
            if not queue.gate.open or (over and model.policy == "block"):
                return False
        return True

    def could_go(self, producer: Watched) -> bool:
        """Whether it could go on now: there is room, and nobody who stands before it for one of its queues lacks it."""
        queues = producer.outbox[0].queues
        if not queues or not self.room(producer) or waits_for_another(producer):
            return False
        if any(queue.deleted and producer.gate is queue.gate for queue in queues):
            return False  # Who waits at a deleted queue is looked at in slices, and others may pass meanwhile.
        for other in self.waiting():
            before = (other.ticket, other.serial) < (producer.ticket, producer.serial)
            if before and not self.room(other) and any(queue in queues for queue in other.outbox[0].queues):
                return False
        return True

    def passes(self, producer: Watched, charge: int, could: list[Watched]) -> None:
        """One message of a producer goes in while others could go as well: nobody gets far ahead of them, in bytes."""
        model = producer.model
        for other in could:
            if other is not producer:
                ahead = other.model.overtaken.get(model.name, 0) + charge
                other.model.overtaken[model.name] = ahead
                most = 2 * LARGEST + other.model.passed_before
                assert ahead <= most, (
                    f"{model.name} is {ahead} bytes ahead of {other.model.name}, which could have gone"
                )
        model.overtaken.clear()
        model.waits_since = next(self._numbers)

    # Looking

    def gone(self, producer: Watched) -> None:
        """A producer departed: nothing of it may be left, and nothing may come of it any more."""
        self._departed.append(producer)
        assert not producer.outbox, "its held publishes are still there"
        assert producer.ticket == 0, "it has a place in line"
        assert producer.gate is None, "it waits at a gate"
        assert (
            producer.hold_budget is self.broker.closed_session_budget
        ) or producer.hold_budget.bytes == producer.hold_budget.messages == 0
        for name, queue in self.real.items():
            gate = queue.gate
            assert producer not in gate.waiters, f"it is among the waiters of {name}"
            assert id(producer) not in gate.blocked, f"it is among those blocked by {name}"
            assert id(producer) not in gate.stats.blocks, f"it is in the book of {name}"

    def look(self, just: Publish | None = None) -> None:
        """Compare everything that can be seen with the model."""
        self.sound = False
        example_counts.looks += 1
        gone, self._departed = self._departed, []
        effects = self.broker.effects()
        before = {name: model.closed for name, model in self.models.items()}
        self._look_at_crossings([effect.transition for effect in effects if isinstance(effect, GateChanged)])
        self._look_at_queues(before)
        self._look_at_confirmations()
        for effect in effects:
            if isinstance(effect, Blocked | Unblocked):
                self._look_at_block(effect)
        for effect in effects:
            if isinstance(effect, CloseSession):
                self._look_at_refusal(effect, just)
            elif isinstance(effect, Departed):
                self._look_at_departure(effect)
        for producer in self.everyone():
            self._look_at_producer(producer)
        for producer in gone:
            assert not producer.model.blocked_by, f"{producer.model.name} went away and is still blocked"
        self.sound = True

    def _look_at_crossings(self, told: list[GateTransition]) -> None:
        """Crossings are looked at when they happen; they are told later, each once, in order."""
        for crossing in [*told, *self.broker.turns.transitions]:
            if not any(crossing is known for known in self._crossings):
                self._crossings.append(crossing)
                owner = crossing.gate.owner
                assert isinstance(owner, Queue)
                self.model_of(owner).cross(crossing.closed, (int(crossing.messages), int(crossing.bytes)), crossing.now)
        self._told += told
        assert all(a is b for a, b in zip(self._told, self._crossings, strict=False)), "told twice, or out of order"

    def _look_at_queues(self, before: dict[str, bool]) -> None:
        entered: list[tuple[str, str, int]] = []
        for name, queue in self.real.items():
            entered += [
                (name, copy.producer, copy.number) for copy in self.models[name].look(see(queue), self.broker.now)
            ]
        alone = len({(producer, number) for _, producer, number in entered}) == 1
        models = {producer.model.name: producer.model for producer in self.everyone()}
        moved = {name for name, model in self.models.items() if model.moved}
        for model in models.values():
            for publish in model.open.values():
                publish.shut -= moved
        for name, producer, number in entered:
            assert producer in models, f"{name}: {producer}:{number} came in after its producer went away"
            queue = self.models[name]
            shut = queue.closed and (alone or (before[name] and name not in moved))
            models[producer].enter(number, queue, shut)
        for queue in self.models.values():
            queue.moved = False

    def _look_at_confirmations(self) -> None:
        for producer in self.broker.take_confirming():
            assert isinstance(producer, Watched)
            outcomes = producer.confirms.take()
            producer.model.held = sum(int(held.budgeted()) for held in producer.outbox)
            if producer in self.producers:
                for outcome in outcomes:
                    producer.model.told(int(outcome.first), int(outcome.last), outcome.confirmed, self.broker.now)
            else:
                assert not outcomes, f"{producer.model.name} went away and is told something"

    def _look_at_block(self, effect: Blocked | Unblocked) -> None:
        assert isinstance(effect.producer, Watched)
        owner = effect.gate.owner
        assert isinstance(owner, Queue)
        blocked_by, name = effect.producer.model.blocked_by, self.model_of(owner).name
        assert (name in blocked_by) == isinstance(effect, Unblocked), f"{effect.producer.name}: told twice of {name}"
        if isinstance(effect, Blocked):
            blocked_by[name] = effect.now
        else:
            del blocked_by[name]

    def _look_at_refusal(self, effect: CloseSession, just: Publish | None) -> None:
        """A session must be closed: for a message that never fits, or what is held too long or too much."""
        producer = effect.producer
        assert isinstance(producer, Watched)
        model, now = producer.model, self.broker.now
        if effect.error.code == 311:
            block = [queue for queue in just.route if queue.policy == "block"]
            assert any(self._never_fits(queue, just.charge) for queue in block), "it would fit into an empty queue"
        else:
            assert effect.error.code == 506
            assert not model.confirming
            model.held = sum(int(held.budgeted()) for held in producer.outbox)
            due = any(publish.deadline - EARLY_S <= now + 1e-9 for publish in model.open.values())
            assert due or (just is not None and model.beyond_bound(just)), "it was refused for nothing"
        if producer in self.leaving:
            self.leaving.remove(producer)
            self.gone(producer)
        else:
            self.replace(self.producers.index(producer), graceful=False)

    def _look_at_departure(self, effect: Departed) -> None:
        """What went away in good order with something held has lost it at its deadline only."""
        producer = effect.producer
        assert isinstance(producer, Watched)
        if producer in self.leaving and producer.loss is not None:
            due = [publish for publish in producer.model.open.values() if publish.deadline - EARLY_S <= self.broker.now]
            assert due, "it was refused for nothing"
            assert producer.loss.cause == DEADLINE
            self.leaving.remove(producer)
            self.gone(producer)

    def replace(self, index: int, graceful: bool) -> None:
        """Close a producer and put another one like it in its place."""
        raise NotImplementedError

    @staticmethod
    def _never_fits(queue: QueueModel, charge: int) -> bool:
        return queue.capacity[0] == 0 or (queue.capacity[1] is not None and charge > queue.capacity[1])

    def _look_at_producer(self, producer: Watched) -> None:
        model = producer.model
        numbers = [int(held.content.decode().split(":")[1]) for held in producer.outbox]
        assert numbers == sorted(numbers), f"{model.name}: holds {numbers}"
        for publish in list(model.open.values()):
            if publish.number in numbers:
                assert not publish.entered, f"{model.name}: {publish.number} is held and in a queue"
                continue
            for queue in publish.route:
                if queue.name in publish.entered or queue.policy == "drop-head" or (queue.deleted and publish.taken()):
                    continue
                turned_away = queue.deleted or not model.must_wait_at(queue, publish.charge)
                assert not model.confirming, f"{model.name}: {publish.number} is not in {queue.name} and not refused"
                assert turned_away, f"{model.name}: {publish.number} is lost before {queue.name}"
            if not model.confirming:
                del model.open[publish.number]
        self._look_at_state(producer, numbers)

    def _look_at_state(self, producer: Watched, numbers: list[int]) -> None:
        model = producer.model
        book = {self.model_of(gate.owner).name for gate in producer.gates.values() if isinstance(gate.owner, Queue)}
        told = set(model.blocked_by)
        assert book == told, f"{model.name}: is blocked by {book}, but was told {told}"
        if numbers:
            assert model.blocked_by, f"{model.name}: waits and was not told why"
            return
        model.waits_since = 0
        model.overtaken.clear()
        if producer in self.leaving:
            self.leaving.remove(producer)
            self.gone(producer)
        if self.broker.turns.transitions:
            return  # What has opened is told with the next turn.
        shut = {name for name, queue in self.models.items() if queue.closed}
        assert told <= shut, f"{model.name}: is blocked by {told - shut}, which are open"
        first = min(model.open.values(), key=lambda publish: publish.number, default=None)
        if first is not None:
            behind = {queue.name for queue in first.route} & shut
            assert behind, f"{model.name}: {first.number} is in its queues, their gates are open, and nobody says so"


def see(queue: Queue) -> Seen:
    """Look at a queue from outside."""
    messages = [message for _, message in sorted(queue.ready_queue.returned, key=lambda entry: entry[0])] + list(
        queue.ready_queue.ready
    )
    waiting = [(int(message.sequence), message.content, int(message.charge)) for message in messages]
    assert waiting == sorted(waiting), "messages are out of order"
    gone = (int(queue.settled), int(queue.counters.dropped), int(queue.counters.expired))
    return Seen(waiting, int(queue.tail), (int(queue.messages), int(queue.bytes)), queue.gate.open, gone)
