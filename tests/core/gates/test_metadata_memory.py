"""Arguments of queues, exchanges, bindings and consumers: charged, bounded, and released exactly."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.broker import Broker
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.gates.metadata_memory import SHARE_OF_MEMORY, memory_of, octets_of
from penstock.core.queue.queue import Queue
from penstock.core.settings.limits import Defaults
from penstock.core.vhost import VirtualHost
from penstock.errors import PreconditionFailed, ResourceError
from penstock.flow.shared_limit import SharedLimit
from penstock.wire.amqp091.codec import decode_table, encode_table
from tests.support.setting_values import in_bytes
from tests.support.topology import declare

pytestmark = pytest.mark.once

MIB = 1024 * 1024

Table = dict[str, object]

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
TABLES = st.dictionaries(st.text(max_size=6), VALUES, max_size=5)


def make() -> tuple[Broker, VirtualHost]:
    broker = Broker(Defaults())
    return broker, broker.add_vhost("/")


def bounded(broker: Broker, capacity: int) -> None:
    broker.gates.set_memory_capacity(in_bytes(capacity, capacity * 8 // 10, capacity * 7 // 10), 0)


SHAPES: dict[str, Table] = {
    "small numbers in a list": {"a": [1] * 3000},
    "truth values in a list": {"a": [True] * 7000},
    "nothing in a list": {"a": [None] * 14_000},
    "empty tables in a list": {"a": [{} for _ in range(2500)]},
    "empty lists in a list": {"a": [[] for _ in range(2500)]},
    "large numbers in a list": {"a": [2**40 + n for n in range(1500)]},
    "times in a list": {"a": [datetime.fromtimestamp(n, UTC) for n in range(1500)]},
    "decimals in a list": {"a": [Decimal(n) / 100 for n in range(2000)]},
    "short names without values": {chr(n): None for n in range(32, 3000)},
    "short names and short texts": {f"{n:x}": "v" for n in range(1500)},
    "short names and small numbers": {f"{n:x}": n % 100 for n in range(1200)},
    "one long text": {"a": "x" * 15_000},
    "octets": {"a": [b"\xff%d" % n for n in range(1500)]},
    "tables in tables": {f"{n:x}": {"a": {"b": n}} for n in range(600)},
}


@pytest.mark.parametrize("exchange", ["amq.topic", "amq.headers"])
@pytest.mark.parametrize("shape", SHAPES)
def test_binding_is_charged_at_least_the_memory_and_at_most_eight_times_as_much(exchange: str, shape: str) -> None:
    broker, vhost = make()
    queue = declare(vhost, "q")
    encoded = encode_table(SHAPES[shape])
    vhost.bind(exchange, queue, None, "warm", decode_table(encoded, 0)[0])
    before = broker.gates.metadata.bytes
    gc.collect()
    tracemalloc.start()
    vhost.bind(exchange, queue, None, "key", decode_table(encoded, 0)[0])
    gc.collect()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    charge = int(broker.gates.metadata.bytes - before)
    other = 2000  # The binding itself and its places in indexes, which are not arguments.
    print(f"{shape}, {exchange}: {len(encoded)} bytes, {taken} taken, {charge} charged")
    assert taken - other <= charge <= 8 * taken


@given(TABLES)
def test_bytes_of_arguments_equal_the_bytes_on_the_wire(table: Table) -> None:
    encoded = encode_table(table)
    again, _ = decode_table(encoded, 0)
    # Whole numbers are written in the least width; they are counted with the widest.
    assert octets_of(again) >= len(encoded) - 4


def test_bytes_of_texts_and_tables_are_exact() -> None:
    table: Table = {"a": "text", "b": {"c": b"\xff", "d": [None, True, 1.5]}, "é": "ü"}
    assert octets_of(table) == len(encode_table(table)) - 4


@pytest.mark.parametrize(
    ("what", "named"),
    [
        ("queue", "the arguments of queue 'big' in vhost '/' have"),
        ("exchange", "the arguments of exchange 'big' in vhost '/' have"),
        ("binding", "the arguments of binding from exchange 'amq.topic' to queue 'q' in vhost '/' have"),
        ("consumer", "the arguments of consumer 'big' have"),
    ],
)
def test_arguments_with_too_many_bytes_are_406_with_object_size_and_bound(what: str, named: str) -> None:
    broker, vhost = make()
    queue = declare(vhost, "q")
    arguments: Table = {"x-note": "n" * 20_000}
    make_it: dict[str, Callable[[], object]] = {
        "queue": lambda: declare(vhost, "big", arguments),
        "exchange": lambda: vhost.declare_exchange("big", "direct", arguments, False, False, False),
        "binding": lambda: vhost.bind("amq.topic", queue, None, "k", arguments),
        "consumer": lambda: consume(broker, Session(), queue, "big", arguments),
    }
    with pytest.raises(PreconditionFailed) as refused:
        make_it[what]()
    rule = "bytes, more than the limit of 16,384 (arguments-octets-max)"
    assert str(refused.value) == f"{named} 20,012 {rule}"
    assert broker.gates.metadata.bytes == 0
    assert list(vhost.queues) == ["q"]
    assert vhost.bindings.count == 0
    assert len(queue.consumers) == 0


def consume(broker: Broker, session: Session, queue: Queue, tag: str, arguments: Table) -> Consumer:
    consumer = Consumer(tag, session, queue, True, False, 0)
    consumer.arguments = arguments
    broker.consume(session, consumer)
    return consumer


def fill(vhost: VirtualHost, arguments: Table) -> None:
    """Declare queues with these arguments until one is refused."""
    for number in count():
        declare(vhost, f"q{number}", arguments)


def exact(memory: SharedLimit | None, broker: Broker) -> int:
    """Return what is counted in the node's memory, without slack."""
    memory.update_gate(broker.now)
    return int(memory.bytes)


def test_sum_of_all_arguments_is_bounded_and_more_is_506() -> None:
    broker, vhost = make()
    moon = broker.add_vhost("moon")
    metadata = broker.gates.metadata
    metadata.bytes_max = 4 * MIB
    arguments: Table = {"x-note": "n" * 10_000}
    with pytest.raises(ResourceError, match=r"the arguments of vhost '/' hold .* share of arguments-bytes-max; queue"):
        fill(vhost, arguments)
    assert metadata.bytes <= 2 * MIB
    declare(moon, "here", arguments)
    declare(vhost, "without")
    broker.delete_queue(vhost.queues["q0"])
    declare(vhost, "again", arguments)
    metadata.bytes_max = int(metadata.bytes)
    with pytest.raises(ResourceError, match="the arguments of all declarations take"):
        declare(moon, "more", arguments)
    assert len(vhost.queues) > 50


def test_arguments_count_with_the_nodes_memory_gate_and_cannot_close_the_gate_alone() -> None:
    broker, vhost = make()
    bounded(broker, 8 * MIB)
    memory = broker.gates.memory
    with pytest.raises(ResourceError):
        fill(vhost, {"x-note": "n" * 10_000})
    metadata = broker.gates.metadata
    assert exact(memory, broker) == int(metadata.bytes) > 0
    assert memory is not None
    assert metadata.bytes <= 8 * MIB // SHARE_OF_MEMORY
    assert memory.gate.open


def test_new_bound_of_the_nodes_memory_counts_the_present_arguments() -> None:
    broker, vhost = make()
    declare(vhost, "q", {"x-note": "n" * 10_000})
    bounded(broker, 8 * MIB)
    memory = broker.gates.memory
    assert exact(memory, broker) == int(broker.gates.metadata.bytes) > 10_000
    broker.delete_queue(vhost.queues["q"])
    assert exact(memory, broker) == 0


def test_bindings_differ_by_type_and_value_of_arguments_but_not_by_the_order() -> None:
    _, vhost = make()
    queue = declare(vhost, "q")
    bound = vhost.bind("amq.headers", queue, None, "", {"a": 1, "b": "x"})
    assert vhost.bind("amq.headers", queue, None, "", {"b": "x", "a": 1}) is bound
    for other in ({"a": True, "b": "x"}, {"a": 1.0, "b": "x"}, {"a": "1", "b": "x"}, {"a": 1, "b": b"\xff"}):
        assert vhost.bind("amq.headers", queue, None, "", dict(other)) is not bound
    assert vhost.bindings.count == 5


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["queue", "exchange", "bind", "chain", "consume", "cancel", "unbind", "-queue", "-exchange"]),
        st.integers(0, 3),
        st.integers(0, 3),
        TABLES,
    ),
    max_size=40,
)


@settings(deadline=None)
@given(STEPS)
def test_charge_of_arguments_is_released_exactly(steps: list[tuple[str, int, int, Table]]) -> None:
    broker, vhost = make()
    bounded(broker, 64 * MIB)
    session = Session()
    for what, one, other, table in steps:
        table = {"x-note": table} if table else {}
        queue, exchange = vhost.queues.get(f"q{one}"), vhost.exchanges.get(f"e{other}")
        if what == "queue" and queue is None:
            declare(vhost, f"q{one}", table)
        elif what == "exchange" and exchange is None:
            vhost.declare_exchange(f"e{other}", "headers" if one % 2 else "topic", table, False, one == 3, False)
        elif what == "bind" and queue is not None and exchange is not None:
            vhost.bind(exchange.name, queue, None, f"k{one}", table)
        elif what == "chain" and exchange is not None:
            vhost.bind("amq.topic", None, exchange, "#", table)
        elif what == "unbind" and queue is not None and exchange is not None and exchange.bindings:
            binding = next(iter(exchange.bindings.values()))
            vhost.unbind(exchange.name, binding.queue, binding.exchange, binding.key, binding.arguments)
        elif what == "consume" and queue is not None and f"c{one}{other}" not in session.consumers:
            consume(broker, session, queue, f"c{one}{other}", table)
        elif what == "cancel":
            broker.cancel(session, f"c{one}{other}")
        elif what == "-queue" and queue is not None:
            broker.delete_queue(queue)
        elif what == "-exchange" and exchange is not None:
            vhost.delete_exchange(exchange.name, False)
        assert exact(broker.gates.memory, broker) == broker.gates.metadata.bytes == sum(charges(vhost))
    broker.end_session(session)
    for queue in list(vhost.queues.values()):
        broker.delete_queue(queue)
    for exchange in list(vhost.exchanges.values()):
        vhost.drop_exchange(exchange)
    assert broker.gates.metadata.bytes == 0
    assert broker.gates.metadata.vhosts == {}
    assert broker.gates.other_memory.bytes == 0
    assert memory_of({}) > 0


def charges(vhost: VirtualHost) -> list[int]:
    """Return what each thing that is there is charged with."""
    found = [queue.arguments_charge for queue in vhost.queues.values()]
    found += [consumer.arguments_charge for queue in vhost.queues.values() for consumer in queue.consumers]
    for exchange in vhost.exchanges.values():
        found.append(exchange.arguments_charge)
        found += [binding.arguments_charge for binding in exchange.bindings.values()]
    return found
