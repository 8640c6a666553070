"""Conversion of the Java broker's config.xml and virtualhosts.xml (Qpid 0.6 to 0.30).

Sources: VirtualHostConfiguration.java, QueueConfiguration.java and ServerConfiguration.java of Qpid 0.18. A virtual
host, and a queue, is a pair of elements: its `name`, and an element of that name with its settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from penstock.cli.conversions.conversion import (
    Conversion,
    Element,
    by_name,
    check_spelling,
    number_of,
    plain,
    read_xml,
    reasons,
)
from penstock.errors import ConfigError

LIMITS: Final = ("capacity", "flowResumeCapacity")
QUOTA: Final = ("overfull-size", "underfull-size")
QUEUE: Final = (
    *LIMITS,
    *("exchange", "routingKey", "durable", "autodelete", "priority", "priorities", "maximumDeliveryCount"),
)
"""Converted elements of a queue; `queues` has the same elements as defaults."""
INHERITED: Final = tuple(name for name in QUEUE if name not in LIMITS)
"""Defaults that a policy cannot have: each queue of the file gets them itself."""
PRIORITIES: Final = 10
"""Number of priorities of a queue with priorities (QueueConfiguration.java)."""
POLICY: Final = "qpid-java"
"""Name of the policy with the defaults of a virtual host; its priority is the lowest."""
VARIABLE: Final = re.compile(r"\$\{[^}]*\}")

IDLE: Final = reasons(
    {
        "it was only an alert, not a limit; metrics have the depth": "maximumQueueDepth maximumMessageCount "
        "maximumMessageSize maximumMessageAge minimumAlertRepeatGap alertThresholdQueueDepthBytes "
        "alertThresholdQueueDepthMessages",
        "an exclusive queue ends with its connection here": "exclusive owner",
        "declare a queue for dead letters, and set dead-letter-exchange": "deadLetterQueues",
        "there are no last-value queues": "lvq lvqKey",
        "there are no sorted queues": "sortKey",
        "the store is chosen at the start (docs/durability.md)": "class environment-path",
        "nothing is to be set there: expiration needs no period": "housekeeping",
        "users and permissions are set by `penstock users`": "security",
        "ports are settings of the start (docs/settings.md)": "connector",
        "the HTTP API has settings of its own (docs/http.md)": "management",
        "a client names its virtual host": "default",
        "there are no plugins": "plugins",
    }
)
"""Elements without meaning in Penstock, with the reason."""
Place = dict[str, object]
"""Virtual host of an entry, as a field of the entry; empty if the file names none."""
NOT_READ: Final = "this import reads queues, exchanges, capacities and quotas"


def convert_qpid_java(data: bytes) -> Conversion:
    """Convert a configuration, or a part of it down to one queue. Raises ConfigError with the line."""
    found = Conversion()
    root = read_xml(data)
    parts: dict[str, Callable[[Conversion, Element], None]] = {
        "broker": _broker,
        "virtualhosts": _virtualhosts,
        "virtualhost": _virtualhost,
        "queues": lambda found, queues: _queues(found, queues.children, {}),
        "queue": lambda found, queue: _queue(found, queue, {}, {}),
        "store": lambda found, store: _store(found, store, None),
    }
    part = parts.get(root.name)
    if part is None:
        raise ConfigError(
            f"line {root.line}: <{root.name}> is no configuration of the Java broker; it begins with broker, "
            "virtualhosts, virtualhost, queues, queue or store"
        )
    part(found, root)
    for element in root.walk():
        for name in element.attributes:
            found.remark(element.line, f"attribute {name} of <{element.name}>", "it is not read")
    return found


def _broker(found: Conversion, broker: Element) -> None:
    """Convert the root of config.xml, whose capacity is the default of every queue."""
    found.set(broker.line, "queue", "#", _limits(by_name(broker.children)))
    for child in broker.children:
        if child.name != "virtualhosts":
            _leave(found, child, LIMITS)
        elif child.children:
            _virtualhosts(found, child)
        else:
            found.remark(child.line, "<virtualhosts>", f"the file '{child.text}' is not followed: convert it too")


def _virtualhosts(found: Conversion, parent: Element) -> None:
    for child in parent.children:
        if child.name == "virtualhost":
            _virtualhost(found, child)
        else:
            _leave(found, child, ("virtualhost",))


def _virtualhost(found: Conversion, element: Element) -> None:
    """Convert a virtual host; its queues and their defaults are in `queues`, or beside it, as before 0.6."""
    vhost, body = _named(element)
    found.add(element.line, "vhosts", {"name": vhost})
    queues: list[Element] = []
    for child in body:
        if child.name == "queues":
            queues += child.children
        elif child.name == "exchanges":
            for exchange in child.children:
                _exchange(found, exchange, vhost)
        elif child.name == "store":
            _store(found, child, vhost)
        else:
            queues.append(child)
    _queues(found, queues, {"vhost": vhost})


def _store(found: Conversion, store: Element, vhost: str | None) -> None:
    """Convert a quota: of the virtual host, or of the broker if the file names none."""
    words = {child.name: plain(_text(child)) for child in store.children if child.name in QUOTA}
    found.set(store.line, "broker" if vhost is None else "vhost", vhost or "", words)
    for child in store.children:
        _leave(found, child, QUOTA)


def _queues(found: Conversion, children: list[Element], place: Place) -> None:
    """Convert the queues of a virtual host; limits beside them are the defaults of all its queues."""
    defaults = by_name(children, ("queue",))
    limits = _limits(defaults)
    if limits:
        line = min(defaults[name].line for name in limits)
        _policy(found, line, place, POLICY, ".*", -1, limits)
    for child in children:
        if child.name == "queue":
            _queue(found, child, place, defaults)
        else:
            _leave(found, child, (*QUEUE, "queue"))


def _queue(found: Conversion, element: Element, place: Place, defaults: dict[str, Element]) -> None:
    name, body = _named(element)
    own = by_name(body, ("routingKey",))
    given = {key: child for key, child in defaults.items() if key in INHERITED} | own
    limits = _limits(own)
    queue = {"name": name, **place, "durable": _is(given, "durable"), "auto_delete": _is(given, "autodelete")}
    found.add(element.line, "queues", {**queue, "arguments": {**limits, **_arguments(given)}})
    if "capacity" in limits and "capacity" in defaults:
        # The smaller capacity of a policy and an argument applies, so the queue gets a policy of its own.
        _policy(found, element.line, place, f"{POLICY}-{name}", f"^{re.escape(name)}$", 0, _limits(defaults) | limits)
    exchange = given.get("exchange")
    if exchange is not None and _text(exchange) not in ("", "<<default>>"):
        keys = [_text(child) for child in body if child.name == "routingKey"] or [name]
        binding = {"source": _text(exchange), **place, "destination": name, "destination_type": "queue"}
        for key in keys:
            found.add(exchange.line, "bindings", {**binding, "routing_key": key, "arguments": {}})
    for child in body:
        _leave(found, child, QUEUE)


def _arguments(given: dict[str, Element]) -> dict[str, object]:
    """Return the arguments of a queue besides its limits."""
    arguments: dict[str, object] = {}
    if "priorities" in given:
        arguments["x-max-priority"] = number_of(given["priorities"]) - 1
    elif _is(given, "priority"):
        arguments["x-max-priority"] = PRIORITIES - 1
    if "maximumDeliveryCount" in given and number_of(given["maximumDeliveryCount"]) > 0:
        arguments["delivery-limit"] = number_of(given["maximumDeliveryCount"]) - 1
    return arguments


def _exchange(found: Conversion, element: Element, vhost: str) -> None:
    given = by_name(element.children)
    if element.name != "exchange" or "name" not in given:
        _leave(found, element, ())
        return
    kind = _text(given["type"]) if "type" in given else "direct"
    flags = {"durable": _is(given, "durable"), "auto_delete": _is(given, "autodelete"), "internal": False}
    entry = {"name": _text(given["name"]), "vhost": vhost, "type": kind, **flags, "arguments": {}}
    found.add(element.line, "exchanges", entry)
    for child in element.children:
        _leave(found, child, ("name", "type", "durable", "autodelete"))


def _named(element: Element) -> tuple[str, list[Element]]:
    """Return the name of a virtual host or queue, and its settings.

    Raises ConfigError for other elements beside them.
    """
    naming = element.child("name")
    if naming is None or not naming.text:
        raise ConfigError(f"line {element.line}: <{element.name}> needs a name: <name>NAME</name>")
    name = _text(naming)
    body: list[Element] = []
    for child in element.children:
        if child.name == name:
            body += child.children
        elif child is not naming:
            raise ConfigError(
                f"line {child.line}: <{child.name}> in a {element.name} named '{name}'; its settings are in <{name}>"
            )
    return name, body


def _policy(
    found: Conversion, line: int, place: Place, name: str, pattern: str, priority: int, limits: dict[str, object]
) -> None:
    entry = {"name": name, **place, "pattern": pattern, "apply-to": "queues", "priority": priority}
    found.add(line, "policies", {**entry, "definition": limits})


def _limits(given: dict[str, Element]) -> dict[str, object]:
    return {name: plain(_text(given[name])) for name in LIMITS if name in given}


def _leave(found: Conversion, element: Element, known: tuple[str, ...]) -> None:
    """Add a remark for an element that has no conversion."""
    if element.name not in known:
        check_spelling(element.line, element.name, [*known, *IDLE])
        found.remark(element.line, f"<{element.name}>", IDLE.get(element.name, NOT_READ))


def _is(given: dict[str, Element], name: str) -> bool:
    return name in given and _text(given[name]).lower() in ("true", "yes", "on")


def _text(element: Element) -> str:
    """Return the text of an element. Raises ConfigError for a text with a variable, whose value is not in the file."""
    if VARIABLE.search(element.text):
        raise ConfigError(
            f"line {element.line}: {element.name} '{element.text}' has a variable; write its value instead"
        )
    return element.text
