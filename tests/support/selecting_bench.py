"""A broker with one queue, whose messages have a color and a number, and consumers with link credit and selectors."""

from __future__ import annotations

from penstock.content.properties import Properties
from penstock.content.selector.selector import Selector, parse_selector
from penstock.core.broker import Broker
from penstock.core.consume.consumer import Batch, Consumer
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.scan import BrowserScan, MessageFilter, SelectorScan
from penstock.core.consume.session import Session
from penstock.core.message import Envelope, Message
from penstock.core.queue.queue import Queue
from penstock.core.queue.queue_settings import ConsumerSettings
from penstock.core.settings.limits import Defaults
from penstock.flow.credit import LinkCredit
from tests.support.toy_format import ToyFormat

PLENTY = 1 << 40
TOY = ToyFormat()


def content(color: str, number: int) -> bytes:
    return TOY.encode(Properties(headers={"color": color, "n": number}), b"")


def number_of(message: Message) -> int:
    headers = TOY.properties(message.content).headers
    number = headers["n"]
    assert isinstance(number, int)
    return number


class CountedFilter(MessageFilter):
    """A filter that remembers the numbers of the messages that it was asked about."""

    def __init__(self, bench: SelectingBench, selector: Selector | None) -> None:
        super().__init__(bench.broker.formats, selector)
        self.asked: list[int] = []

    def matches(self, message: Message) -> bool:
        self.asked.append(number_of(message))
        return super().matches(message)


class SelectingBench:
    """A broker, one queue with messages of these colors, and what was delivered to each consumer."""

    def __init__(self, *colors: str, **arguments: object) -> None:
        self.broker = Broker(Defaults())
        self.broker.formats.add(TOY)
        self.vhost = self.broker.add_vhost("/")
        self.broker.begin(1.0)
        durable = arguments.get("x-queue-type") == "quorum"
        self.queue: Queue = self.vhost.declare_queue("q", dict(arguments), durable, False, None, None)
        self.got: dict[str, list[int]] = {}
        self.batches: list[Batch] = []
        self.sessions: dict[str, Session] = {}
        self.filters: dict[str, CountedFilter] = {}
        self.published = 0
        self.put(*colors)

    def put(self, *colors: str, priority: int = 0, charge: int = 10) -> None:
        """Publish messages, numbered from 1 on."""
        for color in colors:
            self.published += 1
            self.queue.enqueue(Envelope("", "q", priority), content(color, self.published), charge, self.broker.now)
        self.broker.schedule_delivery(self.queue)

    def attach(
        self,
        tag: str,
        selector: str | None = None,
        credit: int = PLENTY,
        browses: bool = False,
        settled: bool = False,
        **how: int,
    ) -> Consumer:
        """Attach a consumer; without a selector it is an ordinary one, unless it browses."""
        session = self.sessions.setdefault(tag, Session(name=tag))
        consumer = Consumer(tag, session, self.queue, settled, bool(how.get("exclusive")), 0)
        consumer.credit = LinkCredit(0, how.get("window_bytes", -1))
        consumer.priority = how.get("priority", 0)
        if selector is not None or browses:
            parsed = None if selector is None else parse_selector(selector)
            self.filters[tag] = CountedFilter(self, parsed)
            if browses:
                consumer.scan = BrowserScan(consumer, self.filters[tag], self.broker)
            else:
                consumer.scan = SelectorScan(consumer, self.filters[tag], self.broker.work)
        self.broker.consume(session, consumer, ConsumerSettings(self.queue.settings, {}))
        self.got.setdefault(tag, [])
        self.grant(consumer, credit)
        return consumer

    def grant(self, consumer: Consumer, credit: int) -> None:
        link_credit = consumer.credit
        assert isinstance(link_credit, LinkCredit)
        consumer.session.grant_credit(consumer, link_credit.delivery_count, credit)

    def deliver(self, most: int = 1_000_000) -> int:
        """Deliver what can be delivered; returns the work. Fails if it does not come to an end."""
        before = self.broker.work.done
        self.broker.work.limit = before + most
        while (batch := self.broker.next_batch()) is not None:
            self.batches.append(batch)
            for message in batch.messages:
                assert message is not None
                self.got[batch.consumer.tag].append(number_of(message))
        spent = int(self.broker.work.done - before)
        assert spent < most or most < 1_000_000, "deliveries do not end"
        return spent

    def turn(self) -> None:
        """Run one turn of the broker, with background work, then deliver."""
        self.broker.run(100)
        self.deliver()

    def release(self, tag: str, first: int = 1, last: int = PLENTY) -> None:
        """Release the deliveries of a consumer."""
        for queue in self.sessions[tag].unsettled.settle(first, last, Outcome.RELEASED, self.broker.now):
            self.broker.schedule_delivery(queue)

    def accept(self, tag: str) -> None:
        """Accept all deliveries of a consumer."""
        self.sessions[tag].unsettled.settle(1, PLENTY, Outcome.ACCEPTED, self.broker.now)

    def ready(self) -> list[int]:
        """Return the numbers of the ready messages, by their sequence."""
        return [number_of(each) for each in sorted(self.queue.ready_queue.messages(), key=lambda each: each.sequence)]
