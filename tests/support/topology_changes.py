"""Anything that may be declared, deleted and done in between, as Hypothesis strategies."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from penstock.connections.peer import Peer
from penstock.content.properties import Properties
from penstock.core.consume.consumer import Consumer
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.core.vhost import VirtualHost
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError
from penstock.operations import vhosts
from penstock.protocols.amqp091.content_frames import make_content
from penstock.settings.read import read_settings
from tests.support import at_once
from tests.support.access_of import access_of
from tests.support.amqp091_strategies import tables

Act = Callable[[BrokerDriver], None]

hosts = st.sampled_from(["/", "/", "/", "a/b", "%2F\n"])
names = st.sampled_from(["a", "b/q", "größe", "\x00.\n"])
exchanges = st.sampled_from(["amq.headers", "a", "b/q", "größe"])
keys = st.sampled_from(["", "a.#", "b/q"])
patterns = st.sampled_from(["#", "a", "größe", "a.*"])

queue_arguments = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"capacity-messages": st.integers(0, 100)}, optional={"stop-percent": st.floats(0, 100)}),
    st.fixed_dictionaries({"x-max-length": st.integers(1, 9)}, optional={"x-overflow": st.just("reject-publish-dlx")}),
    st.fixed_dictionaries({"x-max-priority": st.integers(0, 255)}),
    st.fixed_dictionaries({"x-queue-type": st.just("quorum")}, optional={"x-delivery-limit": st.integers(-1, 9)}),
    st.fixed_dictionaries({"x-expires": st.integers(1, 9999)}, optional={"x-message-ttl": st.integers(0, 9999)}),
    st.fixed_dictionaries({"x-dead-letter-exchange": names}, optional={"x-dead-letter-routing-key": keys}),
    st.fixed_dictionaries({"qpid.max_size": st.sampled_from(["4096", b"4096", 4096])}),
    tables,
)
exchange_arguments = st.one_of(st.just({}), st.fixed_dictionaries({"alternate-exchange": exchanges}), tables)
binding_arguments = st.one_of(
    st.just({}), tables, st.fixed_dictionaries({"x-match": st.sampled_from(["any", "all"]), "n": st.integers(0, 3)})
)
settings = st.one_of(
    st.tuples(
        st.just("queue"),
        patterns,
        st.fixed_dictionaries({}, optional={
            "capacity-messages": st.integers(1, 50),
            "stop-messages": st.sampled_from([1, "20", 60]),
            "resume-percent": st.floats(1, 100),
            "overflow": st.sampled_from(["reject", "block", "ring"]),
            "hold-deadline": st.sampled_from([0, 1.5, "3"]),
            "dead-letter-exchange": names,
        }),
    ),
    st.tuples(st.just("address"), patterns, st.fixed_dictionaries({"rate-messages": st.floats(0.5, 1e9)})),
    st.tuples(st.just("address"), patterns, st.fixed_dictionaries({"capacity-bytes": st.sampled_from([4096, "4MiB"])})),
    st.tuples(st.just("vhost"), patterns, st.fixed_dictionaries({"capacity-messages": st.integers(1, 500)})),
    st.tuples(st.just("user"), patterns, st.fixed_dictionaries({"weight": st.integers(1, 100)})),
    st.tuples(st.just("broker"), st.just(""), st.fixed_dictionaries({"stop-percent": st.integers(71, 90)})),
)  # fmt: skip


def _within(vhost: str, act: Callable[[BrokerDriver, VirtualHost], object]) -> Act:
    def run(driver: BrokerDriver) -> None:
        found = driver.broker.vhosts.get(vhost)
        if found is not None:
            act(driver, found)

    return run


def ask(driver: BrokerDriver, vhost: VirtualHost, operation: str, /, **fields: object) -> None:
    """Ask the broker for a control operation; whatever it answers."""
    connection = driver.connect(Peer("127.0.0.1:1", True))
    connection.user = "guest"
    connection.access = access_of(driver.broker)
    driver.control.request(vhost, connection, operation, make_content(Properties(), json.dumps(fields).encode()))
    driver.disconnect(connection)


def _bind(vhost: VirtualHost, source: str, to_queue: bool, name: str, key: str, arguments: Any, undo: bool) -> None:
    queue = vhost.queue(name) if to_queue else None
    target = None if to_queue else vhost.exchange(name)
    (vhost.unbind if undo else vhost.bind)(source, queue, target, key, arguments)


def _consume_once(driver: BrokerDriver, vhost: VirtualHost, name: str) -> None:
    session = Session()
    driver.broker.consume(session, Consumer("c", session, vhost.queue(name), False, False, 0))
    driver.broker.cancel(session, "c")


def _publish(vhost: VirtualHost, name: str, count: int) -> None:
    queue = vhost.queue(name)
    for _ in range(count):
        queue.enqueue(Envelope("", name), b"", 10, 0.0)


def _unset(driver: BrokerDriver, scope: str, pattern: str) -> None:
    at_once.remove(driver.broker, scope, pattern, [])


def _move(driver: BrokerDriver, vhost: VirtualHost, name: str, operation: str, share: float) -> None:
    """Plan or settle so much of what a cursor's queues have."""
    cursor = vhost.cursors.get(name)
    if cursor is None:
        return
    ends = {queue: int(each.queue.tail * share) for queue, each in cursor.positions.items()}
    if operation == "cursor.plan":
        ask(driver, vhost, operation, cursor=name, token=cursor.token, upto=ends)
    else:
        ask(driver, vhost, operation, cursor=name, token=cursor.token, end=ends)


shares = st.floats(0, 1)
flags = st.booleans()
mostly = st.sampled_from([True, True, False])
readers = st.sampled_from(["größe", "b/q"])
blocks = st.tuples(st.sampled_from(["queue", "address", "vhost", "user"]), names)

virtual_hosts = st.one_of(
    st.builds(lambda n: lambda driver: vhosts.declare_vhost(driver, n), hosts),
    st.builds(lambda n: lambda driver: vhosts.delete_vhost(driver, n), hosts.filter(lambda name: name != "/")),
)
declarations = st.one_of(
    st.builds(
        lambda v, n, k, args, d, a, i: _within(v, lambda driver, vhost: vhost.declare_exchange(n, k, args, d, a, i)),
        hosts, exchanges, st.sampled_from(["direct", "fanout", "topic", "headers"]), exchange_arguments, mostly, flags,
        flags,
    ),
    st.builds(
        lambda v, n, args, d, a, shared: _within(
            v,
            lambda driver, vhost: driver.broker.touch_queue(
                vhost.declare_queue(n, args, d, a, None if shared else driver, driver)
            ),
        ),
        hosts, names, queue_arguments, mostly, flags, mostly,
    ),
)  # fmt: skip
bindings = st.builds(
    lambda v, s, q, n, k, args, bound: _within(v, lambda driver, vhost: _bind(vhost, s, q, n, k, args, not bound)),
    hosts, exchanges, flags, names, keys, binding_arguments, mostly,
)  # fmt: skip
deletions = st.one_of(
    st.builds(lambda v, n: _within(v, lambda driver, vhost: vhost.delete_exchange(n, False)), hosts, exchanges),
    st.builds(
        lambda v, n: _within(v, lambda driver, vhost: driver.broker.delete_queue(vhost.queue(n, driver))), hosts, names
    ),
    st.builds(lambda v, n: _within(v, lambda driver, vhost: _consume_once(driver, vhost, n)), hosts, names),
)
operations = st.one_of(
    st.builds(lambda s: lambda driver: at_once.set_settings(driver.broker, s[0], s[1], read_settings(*s)), settings),
    st.builds(lambda s: lambda driver: _unset(driver, s[0], s[1]), settings),
    st.builds(
        lambda v, b: _within(v, lambda driver, vhost: ask(driver, vhost, "block", **{b[0]: b[1]})), hosts, blocks
    ),
    st.builds(
        lambda v, b: _within(v, lambda driver, vhost: ask(driver, vhost, "unblock", **{b[0]: b[1]})), hosts, blocks
    ),
)
moves = st.builds(
    lambda v, n, o, s: _within(v, lambda driver, vhost: _move(driver, vhost, n, o, s)),
    hosts, readers, st.sampled_from(["cursor.plan", "cursor.settle"]), shares,
)  # fmt: skip
reading = st.one_of(
    st.builds(lambda v, n, c: _within(v, lambda driver, vhost: _publish(vhost, n, c)), hosts, names, st.integers(1, 9)),
    st.builds(
        lambda v, n, q: _within(v, lambda driver, vhost: ask(driver, vhost, "cursor.attach", cursor=n, queues=q)),
        hosts, readers, st.lists(names, min_size=1, max_size=2, unique=True),
    ),
    st.builds(
        lambda v, n: _within(v, lambda driver, vhost: ask(driver, vhost, "cursor.delete", cursor=n)), hosts, readers
    ),
)  # fmt: skip
acts: st.SearchStrategy[Act] = st.one_of(
    virtual_hosts, declarations, bindings, bindings, deletions, operations, operations, reading, *[moves] * 4
)


def furnish(driver: BrokerDriver) -> None:
    """Declare something to begin with, so that few acts are about nothing."""
    for name in ("/", "a/b"):
        vhosts.declare_vhost(driver, name)
        vhost = driver.broker.vhosts[name]
        for queue in ("a", "b/q"):
            vhost.declare_queue(queue, {}, True, False, None, None)
            _publish(vhost, queue, 5)
        vhost.declare_exchange("a", "topic", {}, True, True, False)
        _bind(vhost, "a", True, "a", "a.#", {}, False)
        _bind(vhost, "amq.headers", True, "b/q", "", {"x-match": "all", "n": 1}, False)
        ask(driver, vhost, "cursor.attach", cursor="b/q", queues=["b/q"])


def attempt(driver: BrokerDriver, act: Act) -> bool:
    """Carry out an act; returns whether the broker let it."""
    try:
        act(driver)
    except BrokerError:
        return False
    return True
