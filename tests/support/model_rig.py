"""A real broker beside the model of it: every step is done to both, and after every step they are compared."""

from __future__ import annotations

import pytest

from penstock.core.broker import Broker
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.publish.standstill import LOOKS_A_DEADLINE
from penstock.core.queue.expiry import expire
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.core.settings.limits import Defaults
from penstock.errors import PreconditionFailed
from tests.support import at_once, example_counts
from tests.support.model import ProducerModel, Publish, QueueModel
from tests.support.model_comparison import Looking, Watched

FOR_EVER = float("inf")
LOOKED_S = 1.0
"""Seconds between two looks of a publisher at the gate where it waits, at most: its deadlines are of a few seconds."""


class Reader:
    """A session, and what it has not settled: the queue's model and the sequence, by delivery tag."""

    def __init__(self) -> None:
        self.session = Session()
        self.out: dict[int, tuple[QueueModel, int, str]] = {}
        self.highest = 0

    def upto(self, tag: int, multiple: bool) -> list[int]:
        """The deliveries that a tag stands for; none if it is not out itself."""
        if tag not in self.out:
            return []
        return [each for each in sorted(self.out) if each == tag or (multiple and each <= tag)]


class Rig(Looking):
    """The broker, its queues and those who use them; queues are known by an index, models by a name for each life."""

    def __init__(self, queues: list[QueueModel], producers: list[tuple[bool, int]]) -> None:
        super().__init__(Broker(Defaults()))
        self.vhost = self.broker.add_vhost("/")
        self.vhost.declare_exchange("pair", "fanout", {}, False, False, False)
        self.current: list[str] = []
        self._plans = queues
        for index in range(len(queues)):
            self.current.append(self.declare(index))
        self.routes: list[Route] = [self.vhost.route("", f"q{index}", False) for index in range(len(queues))]
        self.routes += [self.vhost.route("amq.fanout", "", False), self.vhost.route("pair", "", False)]
        self.producers = [self.producer(*plan) for plan in producers]
        self.readers = [Reader(), Reader()]
        self._amounts: list[tuple[int, int, int, int]] = []
        """What entered and left each queue, as was seen last."""
        self._moved_at: float = 0.0
        """Time at which that was seen to change."""
        self._times: list[float] = [0.0]
        """The time before the present one, and that: a publisher may see now what left its gate before either."""
        self._progress_at: float = 0.0
        """Time of the last such look that may have seen progress."""

    # Parts

    def declare(self, index: int) -> str:
        """Declare a queue, and the model of its new life."""
        plan = self._plans[index]
        model = QueueModel(
            f"q{index}#{next(self._numbers)}",
            plan.policy,
            plan.capacity,
            plan.stop,
            plan.resume,
            plan.deadline_s,
            plan.ttl_s,
        )
        arguments: dict[str, object] = {"overflow": plan.policy}
        for unit, at in (("messages", 0), ("bytes", 1)):
            for word, mark in (("capacity", plan.capacity), ("stop", plan.stop), ("resume", plan.resume)):
                if mark[at] is not None:
                    arguments[f"{word}-{unit}"] = mark[at]
        arguments["hold-deadline"] = 0 if plan.deadline_s == FOR_EVER else int(plan.deadline_s)
        if plan.ttl_s != FOR_EVER:
            arguments["x-message-ttl"] = int(plan.ttl_s * 1000)
        self.set(index, arguments)
        queue = self.vhost.declare_queue(f"q{index}", {}, False, False, None, None)
        self.broker.touch_queue(queue)
        self.vhost.bind("amq.fanout", queue, None, "", {})
        if index < 2:
            self.vhost.bind("pair", queue, None, "", {})
        self.models[model.name], self.real[model.name] = model, queue
        return model.name

    def set(self, index: int, settings: dict[str, object]) -> None:
        """Say by a pattern what a queue is like: what is said so can be changed while it is used."""
        at_once.set_named(self.broker, "queue", f"q{index}", **settings)

    def producer(self, confirming: bool, bound: int) -> Watched:
        return Watched(self, ProducerModel(f"p{next(self._numbers)}", confirming, bound, self.broker.now), bound)

    def route_models(self, route: Route) -> list[QueueModel]:
        if route.epoch != self.vhost.epoch:
            self.vhost.resolve(route, {})
        return [self.models[name] for queue in route.queues for name in self.real if self.real[name] is queue]

    # Producers

    def publish(self, producer: Watched, route: Route, charge: int) -> None:
        """Publish one message, and look at what came of it."""
        self.sound = False
        models = self.route_models(route)
        model = producer.model
        publish = model.publish(models, charge, self.broker.now)
        anybody = bool(self.waiting())
        stood = {other.model.name: other.model.waits_since for other in self.waiting()}
        held, turn = len(producer.outbox), model.waits_since
        stopped = model.stopped_by(models, charge, self.broker.now)
        producer.publish(route, f"{model.name}:{publish.number}".encode(), charge)
        if models and len(producer.outbox) > held:
            crowded = anybody or any(not queue.room_for(charge) for queue in models)
            assert crowded or stopped, f"{model.name}: {publish.number} is held for nothing"
        self.look(just=publish)
        self._check_stopped(publish, stopped & model.stopped_by(models, charge, self.broker.now))
        if publish.entered and not held and not producer.outbox and model.waits_since == turn:
            self._check_no_barging(producer, publish, stood)
            self.passes(producer, charge, [other for other in self.waiting() if self.could_go(other)])
        if not producer.outbox:
            model.waits_since = 0
        elif not held and not model.waits_since:
            model.waits_since = next(self._numbers)

    def _check_stopped(self, publish: Publish, stopped: set[str]) -> None:
        """Nothing goes in between stop and capacity of a producer that has waited a whole hold deadline."""
        for name in stopped:
            queue = self.models[name]
            if queue.closed and queue.closed_at < self.broker.now:
                example_counts.stops += 1
                assert name not in publish.entered, f"{publish.number} went into {name}, whose gate has stopped it"

    def _check_no_barging(self, producer: Watched, publish: Publish, stood: dict[str, int]) -> None:
        """A newcomer went straight in: nobody who has been standing in line there may stand there still."""
        for other in self.waiting():
            still = stood.get(other.model.name) == other.model.waits_since and other.model.waits_since
            if other is not producer and still and other.gate is not None and isinstance(other.gate.owner, Queue):
                line = self.model_of(other.gate.owner).name
                assert line not in publish.entered, f"{producer.name} went past {other.name}, which waits for {line}"

    def close(self, index: int, graceful: bool) -> None:
        self.replace(index, graceful)
        self.look()

    def replace(self, index: int, graceful: bool) -> None:
        producer = self.producers[index]
        self.producers[index] = self.producer(producer.model.confirming, producer.model.bound)
        waits = bool(producer.outbox) and graceful and not producer.confirming
        (producer.close_gracefully if graceful else producer.abort)()
        if waits:
            self.leaving.append(producer)
        else:
            self.gone(producer)

    # Consumers

    def deliver(self, batch: Batch | None, reader: Reader) -> bool:
        if batch is None:
            return False
        self.sound = False
        model = self.model_of(batch.consumer.queue)
        messages = [message for message in batch.messages if message is not None]
        keep = not batch.consumer.no_ack
        model.deliver([(int(message.sequence), message.redelivered) for message in messages], keep, self.broker.now)
        reader.highest = int(batch.first) + len(messages) - 1
        for offset, message in enumerate(messages):
            if keep:
                reader.out[int(batch.first) + offset] = (model, int(message.sequence), batch.consumer.tag)
        window = batch.consumer.credit.window
        theirs = [tag for _, _, tag in reader.out.values() if tag == batch.consumer.tag]
        assert not keep or not window or len(theirs) <= window, "more was delivered than its prefetch"
        return True

    def get(self, reader: Reader, name: str, no_ack: bool) -> bool:
        """Get one message, as basic.get does; what is too old goes first."""
        queue = self.real[name]
        expire(queue, self.broker.now, self.broker.now)
        return self.deliver(reader.session.get(queue, no_ack, self.broker.now), reader)

    def next_batch(self) -> bool:
        batch = self.broker.next_batch()
        if batch is None:
            return False
        return self.deliver(batch, next(each for each in self.readers if each.session is batch.consumer.session))

    def settle(self, reader: Reader, tag: int, multiple: bool, requeue: bool) -> None:
        """Acknowledge, or put back, as a channel does it."""
        self.sound = False
        tags = reader.upto(tag, multiple)
        session = reader.session
        if not tags:
            outcome = Outcome.FAILED if requeue else Outcome.ACCEPTED
            with pytest.raises(PreconditionFailed):
                session.unsettled.settle_tag(tag, multiple, outcome, self.broker.now)
            self.look()
            return
        if requeue:
            for queue in session.unsettled.settle_tag(tag, multiple, Outcome.FAILED, self.broker.now):
                self.broker.schedule_delivery(queue)
        else:
            session.unsettled.acknowledge(tag, multiple, self.broker.now)
        for each in tags:
            model, sequence, _ = reader.out.pop(each)
            model.put_back(sequence) if requeue else model.settle(sequence)
        self._more_room(reader)
        self.look()

    def recover(self, reader: Reader) -> None:
        for queue in reader.session.unsettled.settle_tag(0, True, Outcome.FAILED, self.broker.now):
            self.broker.schedule_delivery(queue)
        self._all_back(reader)
        self._more_room(reader)
        self.look()

    def end(self, reader: Reader) -> None:
        self.broker.end_session(reader.session)
        self._all_back(reader)
        reader.session, reader.highest = Session(), 0
        self.look()

    def consume(self, reader: Reader, index: int, no_ack: bool, window: int) -> None:
        tag = f"c{next(self._numbers)}"
        queue = self.real[self.current[index]]
        self.broker.consume(reader.session, Consumer(tag, reader.session, queue, no_ack, False, window))
        self.look()

    def _all_back(self, reader: Reader) -> None:
        for model, sequence, _ in reader.out.values():
            model.put_back(sequence)
        reader.out.clear()

    def _more_room(self, reader: Reader) -> None:
        for consumer in reader.session.consumers.values():
            self.broker.schedule_delivery(consumer.queue)

    # Queues

    def purge(self, index: int) -> None:
        name = self.current[index]
        assert self.real[name].purge(self.broker.now) == self.models[name].purge()
        self.look()

    def delete(self, index: int) -> None:
        """Delete a queue, and declare it anew: the messages that consumers have stay theirs."""
        name = self.current[index]
        self.broker.delete_queue(self.real[name])
        self.models[name].deleted = True
        self.models[name].purge()
        self.look()
        self.current[index] = self.declare(index)
        self.look()  # The pattern that described the old queue describes the new one: producers may be let go of.

    def _is_late(self, producer: Watched, publish: Publish) -> bool:
        """Whether it waits past its deadline; progress postpones that of a publish without a confirm."""
        now = self.broker.now
        if publish.deadline > now:
            return False
        patience_s = min(queue.deadline_s for queue in publish.route)
        return producer.model.confirming or self._progress_at + patience_s * (1 + 1 / LOOKS_A_DEADLINE) <= now

    def run(self, turns: int) -> bool:
        self.sound = False
        more = self.broker.run(turns)
        self.look()
        now = self.broker.now
        amounts = [(each.tail, each.settled, each.dropped, each.expired) for each in self.models.values()]
        if now > self._times[-1]:
            self._times = [self._times[-1], now]
        if amounts != self._amounts:
            self._amounts = amounts
            self._moved_at = now
        if self._moved_at >= self._times[0] - LOOKED_S:
            self._progress_at = now
        for producer in self.everyone():
            late = [publish.number for publish in producer.model.open.values() if self._is_late(producer, publish)]
            assert not late, f"{producer.model.name}: {late} wait past their deadline"
        if not more:
            lost = [p.model.name for p in self.waiting() if self.could_go(p)]
            assert not lost, f"{lost} wait although their road is open"
        return more
