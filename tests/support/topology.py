"""What the tests of routing in the core have in common: declaring, finding a route, and the rule of headers."""

from __future__ import annotations

from penstock.core.routing.route import Route
from penstock.core.vhost import VirtualHost

Headers = dict[str, object]


def exchange(vhost: VirtualHost, name: str, kind: str) -> None:
    vhost.declare_exchange(name, kind, {}, False, False, False)


def queue(vhost: VirtualHost, name: str) -> None:
    vhost.declare_queue(name, {}, False, False, None, None)


def resolve(vhost: VirtualHost, name: str, key: str = "", headers: dict[str, object] | None = None) -> Route:
    route = vhost.route(name, key, False)
    vhost.resolve(route, headers or {})
    return route


def rule(arguments: Headers, headers: Headers) -> bool:
    """What RabbitMQ's documents say of headers, word by word."""
    mode = arguments.get("x-match", "all")
    asked = {name: value for name, value in arguments.items() if name != "x-match"}
    if mode in ("all", "any"):
        asked = {name: value for name, value in asked.items() if not name.startswith("x-")}
    hits = [
        name in headers and (value is None or (headers[name] == value and type(headers[name]) is type(value)))
        for name, value in asked.items()
    ]
    return all(hits) if mode in ("all", "all-with-x") else any(hits)
