"""Filters of a source: selectors, no-local and browsing (section 3.5.8, and Apache's registered filters).

| filter, or field | meaning |
|---|---|
| `apache.org:selector-filter:string` | message selector; on a topic it filters before the queue |
| `apache.org:no-local-filter:list` | no messages that this connection has published |
| `distribution-mode` `copy` | browsing: the queue keeps its messages |

Filters that are not known are left out of the source in our attach, as section 3.5.3 wants it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.content.selector.selector import LETTERS_A_UNIT, Selector, parse_selector
from penstock.core.consume.browser_scan import BrowserScan
from penstock.core.consume.message_filter import MessageFilter
from penstock.core.consume.selector_scan import SelectorScan
from penstock.errors import InvalidField
from penstock.flow.work import WorkMeter
from penstock.wire.amqp10.composite import Composite
from penstock.wire.amqp10.values import Described, Symbol, Typed

if TYPE_CHECKING:
    from penstock.core.consume.consumer import Consumer
    from penstock.protocols.amqp10.session import AmqpSession

SELECTOR: Final = ("apache.org:selector-filter:string", 0x0000468C00000004)
NO_LOCAL: Final = ("apache.org:no-local-filter:list", 0x0000468C00000003)
DIRECT_BINDING: Final = ("apache.org:legacy-amqp-direct-binding:string", 0x0000468C00000000)
TOPIC_BINDING: Final = ("apache.org:legacy-amqp-topic-binding:string", 0x0000468C00000001)
"""Descriptors of filters, as symbols and as numbers; the bindings name the routing key of a subscription."""
COPY: Final = "copy"
"""Distribution mode of a browser (section 3.5.7)."""


class SourceFilters:
    """Filters of one source. Raises InvalidField for a selector that is none."""

    def __init__(self, terminus: Composite, work: WorkMeter) -> None:
        self.browses: bool = terminus.text("distribution_mode") == COPY
        self.selector: str = ""
        """Text of the selector; empty for none."""
        self.no_local: bool = False
        self.binding_key: str | None = None
        """Routing key of a subscription; None if no filter names one."""
        self.granted: dict[object, object] = {}
        """The filters that are in force, as they came."""
        for key, value in terminus.mapping("filter").items():
            if isinstance(value, Described) and self._take(value):
                self.granted[key] = value
        work.done += len(self.selector) // LETTERS_A_UNIT
        self._parsed: Selector | None = parse_selector(self.selector) if self.selector else None

    def _take(self, value: Described) -> bool:
        """Take a filter; return whether it is known."""
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
        return False

    def apply(self, session: AmqpSession, consumer: Consumer, is_bound: bool) -> None:
        """Give a consumer its scan, if it needs one; `is_bound`: the binding of its queue has the selector."""
        selector = None if is_bound else self._parsed
        origin = session.connection.number if self.no_local else 0
        if not self.browses and selector is None and origin == 0:
            return
        wanted = MessageFilter(session.broker.formats, selector, origin)
        if self.browses:
            consumer.scan = BrowserScan(consumer, wanted, session.broker)
        else:
            consumer.scan = SelectorScan(consumer, wanted, session.broker.work)


def _name(descriptor: object) -> object:
    if isinstance(descriptor, Symbol):
        return descriptor.text
    return descriptor.value if isinstance(descriptor, Typed) else descriptor


def _text(value: Described) -> str:
    if not isinstance(value.value, str):
        raise InvalidField(f"filter {_name(value.descriptor)} must be a string")
    return value.value
