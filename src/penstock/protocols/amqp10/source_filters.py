"""Filters of a source: selectors, no-local and browsing (section 3.5.8, and Apache's registered filters).

| filter, or field | meaning |
|---|---|
| `apache.org:selector-filter:string` | message selector; on a topic it filters before the queue |
| `apache.org:no-local-filter:list` | no messages that this connection has published; on a topic before the queue |
| `amqp:properties-filter`, `amqp:application-properties-filter` | conditions of the selector (property_filters.py) |
| `amqp:sql-filter` | a condition in the syntax of RabbitMQ's streams (sql_filters.py) |
| `distribution-mode` `copy` | browsing: the queue keeps its messages |
| `rabbitmq:stream-offset-spec` | position in a stream (settings/stream_offset.py); described, or plain under this key |

On a topic, no-local applies to the connection of an exclusive subscription. For all other subscriptions it applies to
the container-id (the client identifier in JMS) on any connection: a durable subscription outlives its connections.

Unknown filters are left out of the source in the broker's attach (section 3.5.3).
"""

from __future__ import annotations

from typing import Final

from penstock.connections.client_session import ClientSession
from penstock.content.selector.selector import LETTERS_A_UNIT, Selector, parse_selector
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.scan import BrowserScan, MessageFilter, Scan, SelectorScan
from penstock.core.consume.stream_scan import StreamScan
from penstock.errors import InvalidField, PreconditionFailed
from penstock.flow.work import WorkMeter
from penstock.protocols.amqp10.message_format import FIRST_OCTET
from penstock.protocols.amqp10.property_filters import APPLICATION_PROPERTIES, PROPERTIES, condition_of
from penstock.protocols.amqp10.sql_filters import SQL, condition_of_sql
from penstock.settings.stream_offset import FIRST, read_offset
from penstock.wire.amqp10.composite import Composite
from penstock.wire.amqp10.neutral_values import to_neutral
from penstock.wire.amqp10.values import Described, Symbol, Typed

SELECTOR: Final = ("apache.org:selector-filter:string", 0x0000468C00000004)
NO_LOCAL: Final = ("apache.org:no-local-filter:list", 0x0000468C00000003)
DIRECT_BINDING: Final = ("apache.org:legacy-amqp-direct-binding:string", 0x0000468C00000000)
TOPIC_BINDING: Final = ("apache.org:legacy-amqp-topic-binding:string", 0x0000468C00000001)
"""Descriptors of filters, as symbols and as numbers; the bindings name the routing key of a subscription."""
STREAM_OFFSET: Final = "rabbitmq:stream-offset-spec"
"""Descriptor, and key, of the filter with the position in a stream."""
COPY: Final = "copy"
"""Distribution mode of a browser (section 3.5.7)."""


class SourceFilters:
    """Filters of one source. Raises InvalidField for an invalid selector."""

    def __init__(self, terminus: Composite, work: WorkMeter) -> None:
        self.browses: bool = terminus.text("distribution_mode") == COPY
        self.selector: str = ""
        """Text of the selector; empty without one."""
        self.no_local: bool = False
        self.binding_key: str | None = None
        """Routing key of a subscription; None if no filter names one."""
        self._work = work
        self._conditions: list[str] = []
        """Conditions of property filters and SQL filters, as parts of a selector."""
        self.granted: dict[object, object] = {}
        """Effective filters, as received."""
        self._offset: object = None
        """Value of the position in a stream; None without one."""
        self._offset_key: object = None
        for key, value in terminus.mapping("filter").items():
            if (isinstance(value, Described) and self._take(value)) or self._take_offset(key, value):
                self.granted[key] = value
        work.count((len(self.selector) + sum(map(len, self._conditions))) // LETTERS_A_UNIT)
        self._parsed: Selector | None = parse_selector(self.selector) if self.selector else None
        if self._conditions:
            own = [f"({self.selector})"] if self._parsed is not None else []
            self.selector = " AND ".join([*own, *self._conditions])
            self._parsed = parse_selector(self.selector)

    def _take(self, value: Described) -> bool:
        """Take a filter; return whether the filter is known."""
        name = _name(value.descriptor)
        if name in NO_LOCAL:
            self.no_local = True
            return True
        if name in SELECTOR:
            self.selector = _text(value)
            return True
        if name in DIRECT_BINDING or name in TOPIC_BINDING:
            self.binding_key = _text(value)
            return True
        is_application = name in APPLICATION_PROPERTIES
        condition = condition_of(is_application, value.value) if is_application or name in PROPERTIES else None
        if name in SQL:
            condition = condition_of_sql(value.value, self._work)
        if condition is not None:
            self._conditions.append(condition)
        return condition is not None

    def _take_offset(self, key: object, value: object) -> bool:
        """Take the position in a stream; return whether the filter is that."""
        if isinstance(value, Described):
            if _name(value.descriptor) != STREAM_OFFSET:
                return False
            value = value.value
        elif _name(key) != STREAM_OFFSET:
            return False
        self._offset = to_neutral(value)
        self._offset_key = key
        return True

    def take_messages(self) -> None:
        """Ignore a request for copies: the receiver's own queue has no other reader."""
        self.browses = False

    def scan(self, session: ClientSession, consumer: Consumer, is_bound: bool) -> Scan | None:
        """Return the scan of a consumer, if it needs one; `is_bound`: the binding of its queue has the filters."""
        selector = None if is_bound else self._parsed
        origin = session.connection.number if self.no_local and not is_bound else 0
        if consumer.queue.features.type.retains:
            return self._stream_scan(session, consumer, MessageFilter(session.broker.formats, selector, origin))
        self.granted.pop(self._offset_key, None)
        if not self.browses and selector is None and origin == 0:
            return None
        wanted = MessageFilter(session.broker.formats, selector, origin)
        if self.browses:
            return BrowserScan(consumer, wanted, session.broker)
        return SelectorScan(consumer, wanted, session.broker.work)

    def _stream_scan(self, session: ClientSession, consumer: Consumer, filter: MessageFilter) -> StreamScan:
        """Return the scan of a consumer of a stream. Raises InvalidField for an invalid position."""
        if self.browses and self._offset is None:
            self._offset = FIRST
        self.browses = False  # Every consumer of a stream reads copies.
        broker = session.broker
        try:
            start = read_offset(f"link '{consumer.tag}'", STREAM_OFFSET, self._offset, broker.now + broker.wall_offset)
        except PreconditionFailed as error:
            raise InvalidField(str(error)) from None
        consumer.priority = 0
        return StreamScan(consumer, filter, broker, start, broker.formats.by_octet(FIRST_OCTET))


def _name(descriptor: object) -> object:
    if isinstance(descriptor, Symbol):
        return descriptor.text
    return descriptor.value if isinstance(descriptor, Typed) else descriptor


def _text(value: Described) -> str:
    if not isinstance(value.value, str):
        raise InvalidField(f"filter {_name(value.descriptor)} must be a string")
    return value.value
