"""What the tests of routing in the core have in common: declaring, finding a route, and the rule of headers."""

from __future__ import annotations

from penstock.core.broker import Broker
from penstock.core.message import Envelope
from penstock.core.queue.queue import Queue
from penstock.core.routing.route import Route
from penstock.core.settings.limits import Defaults
from penstock.core.vhost import VirtualHost

Headers = dict[str, object]


def a_vhost() -> VirtualHost:
    return Broker(Defaults()).add_vhost("/")


def exchange(vhost: VirtualHost, name: str, kind: str = "direct", auto_delete: bool = False) -> None:
    vhost.declare_exchange(name, kind, {}, False, auto_delete, False)


def declare(vhost: VirtualHost, name: str, arguments: Headers | None = None) -> Queue:
    return vhost.declare_queue(name, arguments or {}, False, False, None, None)


def resolve(vhost: VirtualHost, name: str, key: str = "", headers: Headers | None = None) -> Route:
    route = vhost.route(name, key, False)
    vhost.resolve(route, headers or {})
    return route


def reached(vhost: VirtualHost, name: str, key: str = "", headers: Headers | None = None) -> list[str]:
    """Return the names of the queues that a message gets to."""
    return sorted(queue.name for queue in resolve(vhost, name, key, headers).queues)


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


def topic_rule(pattern: list[str], words: list[str]) -> bool:
    """What the standard says, by recursion: `*` is one word, `#` is none or more."""
    if not pattern:
        return not words
    if pattern[0] == "#":
        return any(topic_rule(pattern[1:], words[at:]) for at in range(len(words) + 1))
    return bool(words) and pattern[0] in ("*", words[0]) and topic_rule(pattern[1:], words[1:])


def checked_route(checks: bool = True) -> Route:
    found = Route(Envelope("x", "k"), False)
    found.checks_delivery_mode = checks
    return found
