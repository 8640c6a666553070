"""Microseconds to find where a routing key leads that nobody has used yet, and what changes of bindings cost others."""

import argparse
import sys
import time
from collections.abc import Callable, Iterable
from itertools import count, product

import penstock
from bench.hotpath import Bench
from penstock.content.properties import Properties
from penstock.core.vhost import VirtualHost
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import frame, method_frame
from penstock.wire.amqp091.content_header import encode_header

BINDINGS = 10_000
GOAL = 2.0
"""Microseconds for a routing key that was not seen before."""
REPETITIONS = 5
EXCHANGE = "telemetry"
QUEUES = 100
KNOWN = 500
"""Routes that are in use while bindings change."""
REGIONS, SITES, DEVICES = 10, 50, 18
KINDS = ("temperature", "pressure", "state")
HEADER_AND_BODY = frame(2, 1, encode_header(1, Properties(delivery_mode=1))) + frame(3, 1, b"x")


def reason_to_skip() -> str | None:
    """Say in one sentence why the goal does not apply here; None when it does."""
    return None if penstock.compiled() else "Penstock runs interpreted here; the goal is about the compiled form."


def patterns() -> list[str]:
    """Return as many different patterns as there are to be bindings, with wildcards in all places."""
    every = product(range(REGIONS), range(SITES), range(DEVICES))
    found = [f"r{region}.s{site}.d{device}.*" for region, site, device in every]
    found += [f"r{region}.s{site}.#" for region, site in product(range(REGIONS), range(SITES))]
    found += [f"r{region}.*.d{device}.{kind}" for region, device, kind in product(range(REGIONS), range(15), KINDS)]
    found += [f"*.s{site}.#.{KINDS[0]}" for site in range(SITES - 1)]
    found.append("#.alarm")
    assert len(found) == len(set(found)) == BINDINGS, len(found)
    return found


def keys() -> Iterable[str]:
    """Yield routing keys that have not been there before, for ever."""
    for number in count():
        region, site, device = number % REGIONS, number % SITES, number % (2 * DEVICES)
        yield f"r{region}.s{site}.d{device}.{KINDS[number % 3]}{number}"


def prepared() -> Bench:
    """Make a broker with a topic exchange and its bindings."""
    bench = Bench()
    vhost = vhost_of(bench)
    vhost.declare_exchange(EXCHANGE, "topic", {}, False, False, False)
    queues = [vhost.declare_queue(f"q{number}", {}, False, False, None, None) for number in range(QUEUES)]
    for number, pattern in enumerate(patterns()):
        vhost.bind(EXCHANGE, queues[number % QUEUES], None, pattern, {})
    return bench


def vhost_of(bench: Bench) -> VirtualHost:
    """Return the virtual host that everything is in."""
    return bench.driver.broker.vhosts["/"]


def least(action: Callable[[], int]) -> float:
    """Return the microseconds of each of the things that an action does and counts, at its least disturbed."""
    best = float("inf")
    for _ in range(REPETITIONS):
        begun = time.process_time()
        done = action()
        best = min(best, (time.process_time() - begun) / done * 1e6)
    return best


def unseen(vhost: VirtualHost, routes: int) -> float:
    """Measure finding routes for keys that nobody has used."""
    fresh = iter(keys())

    def find() -> int:
        for key in [next(fresh) for _ in range(routes)]:
            vhost.resolve(vhost.route(EXCHANGE, key, False), {})
        return routes

    return least(find)


def change(vhost: VirtualHost, source: str, bound: bool) -> None:
    """Make a binding that concerns nobody, or undo it."""
    act = vhost.unbind if bound else vhost.bind
    act(source, vhost.queues["q0"], None, "far.from.here", {})


def changes(vhost: VirtualHost, times: int, source: str) -> float:
    """Measure making a binding or undoing it, in an exchange with many."""

    def turn() -> int:
        for number in range(times):
            change(vhost, source, number % 2 == 1)
        return times

    return least(turn)


def again(vhost: VirtualHost, looks: int, source: str) -> float:
    """Measure looking at a known route again after a binding of an exchange has changed; many do so for each change."""
    known = [vhost.route(EXCHANGE, key, False) for key, _ in zip(keys(), range(KNOWN), strict=False)]

    def come_back() -> int:
        for number in range(looks // KNOWN // 2 * 2):
            change(vhost, source, number % 2 == 1)
            for route in known:
                vhost.refresh_route(route)
        return looks // KNOWN // 2 * 2 * KNOWN

    return least(come_back)


def wire(bench: Bench, messages: int) -> float:
    """Measure whole publishes, each with a routing key of its own."""
    fresh = iter(keys())
    best = float("inf")
    for _ in range(REPETITIONS):
        data = b"".join(
            method_frame(1, spec.BASIC_PUBLISH, exchange=EXCHANGE, routing_key=next(fresh)) + HEADER_AND_BODY
            for _ in range(messages)
        )
        begun = time.process_time()
        bench.feed(bench.publisher, data)
        best = min(best, (time.process_time() - begun) / messages * 1e6)
    return best


def main() -> int:
    """Measure and judge; 1 when an unseen key takes longer than promised."""
    parser = argparse.ArgumentParser(prog="bench.routing", description=__doc__)
    parser.add_argument("--routes", type=int, default=20_000)
    wanted = parser.parse_args()
    bench = prepared()
    vhost = vhost_of(bench)
    found = unseen(vhost, wanted.routes)
    print(f"A key that was not seen before finds its way through {BINDINGS:,} topic bindings "
          f"in {found:.2f} µs (goal: under {GOAL:g}).")  # fmt: skip
    print(f"Published from the wire, such a message takes {wire(bench, wanted.routes // 10):.2f} µs in all.")
    elsewhere, here = again(vhost, wanted.routes, "amq.topic"), again(vhost, wanted.routes, EXCHANGE)
    print(f"A change of a binding takes {changes(vhost, wanted.routes, EXCHANGE):.2f} µs; looking at a known route "
          f"again after one {here:.2f} µs, and {elsewhere:.2f} µs after one of another exchange.")  # fmt: skip
    if reason := reason_to_skip():
        print(f"Not judged: {reason}")
        return 0
    return 0 if found < GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
