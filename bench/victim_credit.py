"""Experiments of `bench.victim` with credit of AMQP 1.0 that is reserved and never used, and with greedy windows.

An honest publisher of each protocol keeps a window of confirms full, on a queue whose consumer keeps up. Its rate is
measured alone, and beside the attacker. The goal is that it keeps 90 % of it, and that nothing is refused. The other
experiments compare the shares of two publishers at a bounded queue, and the cost of 64 links at one.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

from bench import loadgen
from bench.flow.links import BODY_OCTETS, MIB, PLACES
from bench.victim10 import Client10, queue
from bench.victim_clients import Place, declare
from penstock.client.aio import Receiver
from penstock.client.bench import flow_parties
from penstock.client.bench.experiments import pace
from penstock.client.bench.flow_parties import CHARGE
from penstock.client.bench.target import Target
from penstock.wire.amqp10.values import Symbol

MEASURED_S = 3.0
SETTLES_S = 0.5
"""Seconds for which publishers run before they are measured."""
WINDOW = 50
PREFETCH = 500
KEPT = 0.9
"""Part of its rate that an honest publisher keeps."""
UNFAIRNESS = 1.1
SMALL_CREDIT = 0.6
SMALL_CREDIT_US = 2.0
"""Of 64 links on 720 places: part of the rate without a bound, and the most processor time of a message, in us."""
HUGE = 90_000_000
BOUND: dict[str, object] = {"capacity-messages": 4000}
LINK, CHANNEL = "amqp10", "amqp091"
PROTOCOLS = {"0-9-1": CHANNEL, "1.0": LINK}
KIB_64 = 64 * 1024

Attack = Callable[[Place, str], None]


@dataclass
class Verdict:
    """What one experiment found, in words."""

    words: str
    met: bool


# Attackers: each takes credit for a queue, or beside it, and sends nothing


def huge_elsewhere(place: Place, name: str) -> None:
    """12 links for messages of 90 MB, by a user without a tag in a virtual host of its own."""
    place.http("PUT", "vhosts/confined")
    place.http("PUT", "users/stranger", json.dumps({"password": "stranger", "tags": ""}).encode())
    every = {"configure": ".*", "write": ".*", "read": ".*"}
    place.http("PUT", "permissions/confined/stranger", json.dumps(every).encode())
    place.http("PUT", "queues/confined/own", b"{}")
    stranger = Client10(place, "stranger", "vhost:confined")
    stranger.ask(*[stranger.sender(queue("own"), handle, properties=_message_bytes(HUGE)) for handle in range(12)])


def huge_here(place: Place, name: str) -> None:
    """two links for messages of 90 MB to the same queue, of default size."""
    client = Client10(place)
    client.ask(*[client.sender(queue(name), handle, properties=_message_bytes(HUGE)) for handle in range(2)])


def idle_links(place: Place, name: str) -> None:
    """10,000 idle links to the same queue, on 40 connections."""
    _idle(place, name, 40, 250)


def crowd(place: Place, name: str) -> None:
    """100,000 idle links to the same queue, on 100 connections of one user."""
    _idle(place, name, 100, 1000)


def _idle(place: Place, name: str, connections: int, links: int) -> None:
    for _ in range(connections):
        client = Client10(place)
        client.ask(*[client.sender(queue(name), handle) for handle in range(links)])


def _message_bytes(octets: int) -> dict[Symbol, object]:
    return {Symbol("penstock:message-bytes"): octets}


ATTACKS: dict[str, tuple[Attack, dict[str, object]]] = {
    "huge-elsewhere": (huge_elsewhere, {}),
    "huge-here": (huge_here, {}),
    "idle-links": (idle_links, BOUND),
    "idle-links-default": (idle_links, {}),
    "crowd": (crowd, BOUND),
}  # fmt: skip
"""Attackers, with the arguments of the queue of the honest publishers."""


def beside(place: Place, name: str) -> Verdict:
    """Measure honest publishers alone and beside an attacker."""
    attack, arguments = ATTACKS[name]
    honest = f"honest-{time.time_ns()}"
    place.prepare(declare(honest, **arguments))
    url = f"amqp://guest:guest@127.0.0.1:{place.port}/"
    alone = {title: asyncio.run(_honest(url, honest, protocol)) for title, protocol in PROTOCOLS.items()}
    attack(place, honest)
    cells, met = [], True
    for title, protocol in PROTOCOLS.items():
        rate, refused = asyncio.run(_honest(url, honest, protocol))
        part = rate / max(1.0, alone[title][0])
        met = met and part >= KEPT and refused == 0
        cells.append(f"{title}: {alone[title][0]:,.0f} -> {rate:,.0f}/s ({part:.0%}), {refused} refused")
    return Verdict("; ".join(cells), met)


async def _honest(url: str, name: str, protocol: str) -> tuple[float, int]:
    """Return the confirmed messages a second of one publisher, and how many were refused."""
    place = _place(url, protocol, CHANNEL)
    party = await flow_parties.publisher(await place.connect(0), name, 0, WINDOW)
    reading = await place.connect(-1)
    async with reading.receiver(name, prefetch=PREFETCH) as receiver:
        taking = asyncio.create_task(_take(receiver))
        party.start()
        await asyncio.sleep(SETTLES_S)
        before, began = party.confirmed, time.monotonic()
        await asyncio.sleep(MEASURED_S)
        rate = (party.confirmed - before) / (time.monotonic() - began)
        taking.cancel()
    await party.stop()
    await reading.close()
    return rate, party.refused + (1 if party.error else 0)


async def _take(receiver: Receiver) -> None:
    async for message in receiver:
        message.accept()


def _place(url: str, *protocols: str) -> flow_parties.Place:
    return flow_parties.Place(Target.ask(url), protocols)


# Shares


def _shares(protocols: tuple[str, ...], windows: list[int], capacity: int) -> Callable[[Place], Verdict]:
    """Return what compares the shares of two publishers, at a consumer of 2,000 messages a second."""

    def compare(place: Place) -> Verdict:
        parties = _place(f"amqp://guest:guest@127.0.0.1:{place.port}/", *protocols)
        found = asyncio.run(pace(parties, windows, capacity, MEASURED_S))
        met = found["unfairness"] <= UNFAIRNESS and found["refused"] == 0
        return Verdict(f"{found['first_to_others']:.2f} : 1 of {found['rate']:,.0f} messages a second", met)

    return compare


def small_credit(place: Place) -> Verdict:
    """64 links on 720 places beside 64 links without a bound, with logs."""
    rates, cost = {}, 0.0
    for places in (0, PLACES):
        bound = ("--argument", f"capacity-messages={places}") if places else ()
        result = loadgen.run(
            place.port, *bound, "--sizes", str(BODY_OCTETS), "--links", "64", "--confirms", "1000", "--seconds",
            str(MEASURED_S), pids=[place.process.pid], protocol=loadgen.AMQP1,
        )  # fmt: skip
        rates[places] = result["rate"]
        cost = result["broker_cpu"] / max(1, result["messages"]) * 1e6
    part = rates[PLACES] / rates[0]
    words = f"{rates[PLACES]:,.0f}/s of {rates[0]:,.0f}/s ({part:.0%}), {cost:.2f} us a message"
    return Verdict(words, part >= SMALL_CREDIT and cost <= SMALL_CREDIT_US)


LINKS, BOTH, BOTH_TURNED = (LINK, LINK), (LINK, CHANNEL), (CHANNEL, LINK)
SHARES: dict[str, Callable[[Place], Verdict]] = {
    "greedy-links-64K": _shares(LINKS, [1000, 10], KIB_64),
    "greedy-links-1M": _shares(LINKS, [1000, 10], MIB),
    "greedy-link-64K": _shares(BOTH, [1000, 10], KIB_64),
    "greedy-link-1M": _shares(BOTH, [1000, 10], MIB),
    "greedy-publisher-64K": _shares(BOTH_TURNED, [1000, 10], KIB_64),
    "greedy-publisher-1M": _shares(BOTH_TURNED, [1000, 10], MIB),
    "equal": _shares(BOTH, [50, 50], 4000 * CHARGE),
    "one-by-one": _shares(BOTH, [1000, 1], 4000 * CHARGE),
    "small-credit": small_credit,
}  # fmt: skip
"""Who gets how much of a bounded queue: windows of a link or a publisher beside that of another."""


def run(place: Place, name: str) -> Verdict:
    """Run one experiment."""
    return beside(place, name) if name in ATTACKS else SHARES[name](place)


NAMES = [*ATTACKS, *SHARES]
