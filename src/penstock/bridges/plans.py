"""Plans of bridges by their specs: ends, terms and times, made anew for each attempt to connect.

Theory of operation. A spec is JSON from the broker, and its value was checked when it was set. A store of an earlier
version may have values that nobody has checked, so that each reader raises `ConfigError` for what it cannot use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import quote

from penstock.bridges.carrier import Terms
from penstock.bridges.choice import Choice, ChosenCarrier
from penstock.bridges.dialing import Dial, options_of
from penstock.bridges.ends import source_of, target_of
from penstock.bridges.federation_link import FederationLink, link_of
from penstock.bridges.link_terms import terms_of, uris_of
from penstock.bridges.shovels import shovel_of
from penstock.bridges.state import State
from penstock.client.options import Options
from penstock.errors import ConfigError
from penstock.operations.bridge_keys import KEYS
from penstock.operations.key_table import canonical

Spec = Mapping[str, Any]
LOOK_S: Final = 1.0
"""Seconds between two looks of a bridge at its state, while nothing else happens."""
LEAST_S: Final = 0.05
"""Least seconds before a lost end is tried again."""
LINK_RECONNECT_S: Final = 5.0
"""Seconds before a link of federation is tried again: RabbitMQ's default."""
AT_LEAST_ONCE: Final = "at least once"


class Carries(Protocol):
    """Carrier of either kind."""

    state: State

    @property
    def lag(self) -> int | None:
        """Messages in the source; None if unknown."""

    def stop(self) -> None:
        """End in order."""

    async def run(self) -> State:
        """Carry until the end."""


class Plan(NamedTuple):
    """Plan of one bridge."""

    make: Callable[[int, State], Carries]
    """Function that returns the carrier of an attempt, by its number. Raises `ConfigError`."""
    delay_s: float
    """Seconds before the first attempt after a failure; 0: it is not tried again."""
    source: str
    target: str
    """Ends without secrets."""
    delivery: Callable[[], str] = lambda: AT_LEAST_ONCE
    """Function that returns the delivery in words."""


def plan_of(spec: Spec, cluster: str, dial: Dial) -> Plan:
    """Return the plan of a spec; `cluster` is the name of the broker. Raises `ConfigError`."""
    value = spec.get("value")
    if not isinstance(value, dict):
        raise ConfigError("the definition is no object")
    if spec.get("component") == "shovel":
        shovel = shovel_of(spec, cluster, dial)
        return Plan(shovel.carrier, shovel.delay_s, shovel.source, shovel.target)
    if spec.get("component") == "bridge":
        return _bridge_of(spec, value, dial)
    if spec.get("component") == "federation":
        return _link_of(spec, value, dial)
    raise ConfigError(f"this version runs no {spec.get('component')}")


def _link_of(spec: Spec, value: Mapping[str, Any], dial: Dial) -> Plan:
    terms, uris, user = terms_of(spec), uris_of(spec), str(spec["run_as"])
    name = f"{connection_name(spec)}, {terms.kind} {terms.resource}"
    local = f"amqp:///{quote(terms.vhost, safe='')}"
    new = options_of(local, "target", name, user, dial, protocol="amqp091")
    olds = [options_of(uri, "upstream", name, user, dial, protocol="amqp091") for uri in uris]

    def make(number: int, state: State) -> FederationLink:
        at = number % len(uris)
        return link_of(terms, uris[at], olds[at], local, new, state)

    first = make(0, State())
    delay_s = max(float(value.get("reconnect-delay", LINK_RECONNECT_S)), LEAST_S)
    return Plan(make, delay_s, first.sides.source, first.sides.target)


def _bridge_of(spec: Spec, value: Mapping[str, Any], dial: Dial) -> Plan:
    source = source_of(str(value.get("source", "")), True)
    target = target_of(str(value.get("target", "")), source, True, spec.get("ports", ()))
    settings = canonical(KEYS, value)
    name, user, selector = connection_name(spec), str(spec["run_as"]), str(settings["selector"])
    delay_s, count = float(settings["reconnect-delay"]), settings.get("delete-after")
    terms = Terms(
        count=count,
        selector=selector,
        with_hops=settings["forward-headers"] is True,
        prefetch=settings["prefetch"],
        hops_most=settings.get("max-hops"),
        tries_again=True,
        look_s=LOOK_S,
    )
    reading = {"protocol": "amqp10"} if selector else {}
    kept = {"reconnect": True, "reconnect_delay": max(delay_s, LEAST_S), "protocol": "amqp091"}

    def options(first: dict[str, Any], second: dict[str, Any]) -> tuple[Options, Options]:
        old = options_of(source.url, "source", name, user, dial, **first)
        return old, options_of(target.url, "target", name, user, dial, **second)

    choice = Choice(str(settings["delivery"]), str(spec["key"]), options(reading, {}), options(kept, kept))

    def make(number: int, state: State) -> ChosenCarrier:
        left = None if count is None else max(count - state.carried, 0)
        return ChosenCarrier(choice, source, target, replace(terms, count=left), state)

    return Plan(make, delay_s, str(source), str(target), lambda: choice.delivery)


def connection_name(spec: Spec) -> str:
    """Return the name of the connections of a bridge."""
    return f"{spec['component']} {spec['name']}"
