"""Conversion of Artemis' broker.xml: address-settings, addresses, queues of Artemis 1, and limits of the broker.

Sources: artemis-configuration.xsd, FileConfigurationParser.java and AddressSettings.java of Artemis.
"""

from __future__ import annotations

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
from penstock.core.settings.table import Patterns
from penstock.errors import ConfigError
from penstock.settings.read import ARTEMIS_UNITS
from penstock.texts import AMOUNT, amount

BOUNDS: Final = ("max-size-bytes", "max-size-messages")
SETTINGS: Final = {
    **{
        name: name
        for name in (
            *("address-full-policy", "max-size-bytes", "max-size-messages", "page-limit-bytes", "page-limit-messages"),
            *("page-full-policy", "default-consumer-window-size", "slow-consumer-threshold", "slow-consumer-policy"),
            *("slow-consumer-check-period", "auto-create-queues"),
        )
    },
    "slow-consumer-threshold-measurement-unit": "",
    "max-delivery-attempts": "delivery-limit",
    "redelivery-delay": "retry-delay",
    "max-redelivery-delay": "retry-delay-max",
    "dead-letter-address": "dead-letter-routing-key",
    "expiry-delay": "message-ttl",
    "max-expiry-delay": "message-ttl",
    "auto-create-jms-queues": "auto-create-queues",
}
"""Elements of an address-setting, and settings of queues. Values keep the meaning of the element."""
UNIT_S: Final = {
    f"MESSAGES_PER_{unit}": s for unit, s in (("SECOND", 1), ("MINUTE", 60), ("HOUR", 3600), ("DAY", 86400))
}
"""Seconds of the units of slow-consumer-threshold."""

IDLE: Final = reasons(
    {
        "expired messages go where dead letters go": "expiry-address expiry-queue-prefix expiry-queue-suffix "
        "auto-create-expiry-resources",
        "a message keeps the expiration that its sender gave it": "min-expiry-delay no-expiry",
        "queues and exchanges of dead letters are declared": "auto-create-dead-letter-resources "
        "dead-letter-queue-prefix dead-letter-queue-suffix send-to-dla-on-no-route",
        "a retry-delay doubles with each failure, without jitter": "redelivery-delay-multiplier "
        "redelivery-collision-avoidance-factor",
        "a publish waits no longer than hold-deadline": "max-size-bytes-reject-threshold",
        "pages have no size of their own": "page-size-bytes page-max-cache-size max-read-page-messages "
        "max-read-page-bytes prefetch-page-messages prefetch-page-bytes",
        "metrics have no history in the broker": "message-counter-history-day-limit enable-metrics",
        "set it as an argument of the queue": "default-last-value-queue last-value-queue default-last-value-key "
        "default-exclusive-queue default-ring-size default-max-consumers default-non-destructive",
        "a group of group-by moves when all its messages are settled": "default-group-rebalance "
        "default-group-rebalance-pause-dispatch default-group-buckets default-group-first-key",
        "the broker has no such feature": "default-purge-on-no-consumers "
        "default-consumers-before-dispatch default-delay-before-dispatch retroactive-message-count "
        "enable-ingress-timestamp id-cache-size initial-queue-buffer-size",
        "a queue that nobody uses is deleted by `expires`": "auto-delete-queues auto-delete-created-queues "
        "auto-delete-queues-delay auto-delete-queues-message-count auto-delete-queues-skip-usage-check "
        "auto-delete-jms-queues auto-delete-jms-topics",
        "exchanges are declared": "auto-create-addresses auto-create-jms-topics auto-delete-addresses "
        "auto-delete-addresses-delay auto-delete-addresses-skip-usage-check default-address-routing-type "
        "default-queue-routing-type",
        "an import deletes nothing": "config-delete-queues config-delete-addresses config-delete-diverts",
        "there are no links between brokers": "redistribution-delay",
        "lists have pages of their own": "management-browse-page-size management-message-attribute-size-limit",
    }
)
"""Elements of an address-setting without meaning in Penstock, with the reason."""

OF_BROKER: Final = ("global-max-size", "max-disk-usage", "min-disk-free")
PARTS: Final = ("address-settings", "addresses", "queues", "wildcard-addresses", *OF_BROKER)
PREFIXES: Final = reasons(
    {
        "ports are settings of the start (docs/settings.md)": "acceptors",
        "there are no links between brokers": "connectors bridges cluster federations broker-connections",
        "users and permissions are set by `penstock users`": "security",
        "the store has settings of its own (docs/durability.md)": "journal paging-directory bindings-directory "
        "large-messages-directory persistence",
        "the memory of all messages is bounded in bytes, by global-max-size": "global-max-messages",
        "bind the queue to the exchange as well": "divert",
        "a second broker waits for the same store (docs/durability.md)": "ha-policy",
        "a pattern is never literal": "literal-match-markers",
    }
)
"""Prefixes of other elements of the core, with the reason for each."""
NOT_READ: Final = "this import reads address-settings, addresses, queues and limits of the broker"


class Wildcards:
    """Characters of patterns (wildcard-addresses), and their translation."""

    def __init__(self, core: Element, found: Conversion) -> None:
        self._signs = {"delimiter": ".", "any-words": "#", "single-word": "*"}
        element = core.child("wildcard-addresses")
        for child in [] if element is None else element.children:
            if child.name in self._signs:
                self._signs[child.name] = _character(child)
            else:
                found.remark(child.line, f"<{child.name}>", "wildcards are always in effect in patterns")

    def pattern(self, match: str) -> str:
        """Return a match as a pattern of Penstock; empty if it cannot be expressed.

        In Penstock a wildcard is a whole word, and a word contains no dot or wildcard.
        """
        delimiter, any_words, one_word = self._signs.values()
        wildcards = {any_words: "#", one_word: "*"}
        words = [
            wildcards.get(word, "" if {".", "#", "*", *wildcards}.intersection(word) else word)
            for word in match.split(delimiter)
        ]
        return ".".join(words) if all(words) else ""


def convert_artemis(data: bytes) -> Conversion:
    """Convert a broker.xml, or its part `address-settings`. Raises ConfigError with the line."""
    root, found = read_xml(data), Conversion()
    core = root
    if root.name == "configuration":
        core = root.child("core") or Element("core", {}, root.line)
        _leave_others(found, root, ("core", "jms"))
    elif root.name == "address-settings":
        core = Element("core", {}, root.line)
        core.children.append(root)
    elif root.name != "core":
        raise ConfigError(
            f"line {root.line}: <{root.name}> is no configuration of Artemis; "
            "it begins with configuration, core or address-settings"
        )
    converter = _Core(core, found)
    converter.convert()
    if root.name == "configuration":
        for element in root.children:
            if element.name == "jms":
                converter.jms(element)
    return found


class _Core:
    """Conversion of the element `core`."""

    def __init__(self, core: Element, found: Conversion) -> None:
        self._core = core
        self._found = found
        self._wildcards = Wildcards(core, found)
        self._topics = _topics(core)
        self._settings: dict[str, dict[str, object]] = {}
        """Settings by pattern."""
        self._patterns = Patterns()

    def convert(self) -> None:
        for element in self._core.children:
            if element.name == "address-settings":
                for setting in element.children:
                    self._address_setting(setting)
        for element in self._core.children:
            if element.name == "addresses":
                for address in element.children:
                    self._address(address)
            elif element.name == "queues":
                for queue in element.children:
                    self._core_queue(queue)
            elif element.name in OF_BROKER:
                self._of_broker(element)
        for pattern in self._settings:
            if pattern.startswith("jms.topic.") and not {"*", "#"} & set(pattern.split(".")):
                self._bound_exchange(self._core.line, pattern)
        _leave_others(self._found, self._core, PARTS)

    def jms(self, jms: Element) -> None:
        """Convert queues and topics of the element `jms` (Artemis 1): their addresses have a prefix."""
        for element in jms.children:
            name = element.attributes.get("name", "")
            if element.name == "queue" and name:
                address = f"jms.queue.{name}"
                element.attributes["name"] = address
                self._queue(address, False, element)
            elif element.name == "topic" and name:
                self._topic(element.line, f"jms.topic.{name}")
            else:
                _leave(self._found, element, "only queues and topics are read of jms")

    def _address_setting(self, element: Element) -> None:
        if element.name != "address-setting":
            _leave(self._found, element, NOT_READ)
            return
        match = element.attributes.get("match")
        if match is None:
            raise ConfigError(f"line {element.line}: an address-setting needs the attribute match")
        _leave_attributes(self._found, element, ("match",))
        pattern = self._wildcards.pattern(match)
        if not pattern:
            _leave(self._found, element, f"a wildcard in '{match}' must be a whole word between dots", f" {match}")
            return
        settings = self._settings.setdefault(pattern, {})
        self._patterns.add(pattern)
        if not element.children:
            _leave(self._found, element, "it sets nothing", f" {match}")
        for child in by_name(element.children).values():
            self._setting(child, element, settings)
        self._found.set(element.line, "queue", pattern, settings)

    def _setting(self, child: Element, parent: Element, settings: dict[str, object]) -> None:
        name, text = child.name, child.text
        if name not in SETTINGS:
            check_spelling(child.line, name, [*SETTINGS, *IDLE])
            _leave(self._found, child, IDLE.get(name, "it is not known to this import"))
            return
        _leave_attributes(self._found, child, ())
        ours = SETTINGS[name]
        if not ours:
            if parent.child("slow-consumer-threshold") is None:
                _leave(self._found, child, "there is no slow-consumer-threshold beside it")
        elif name == "dead-letter-address":
            self._dead_letters(child, settings)
        elif name == "max-delivery-attempts":
            attempts = number_of(child)
            settings[ours] = attempts - 1 if attempts > 0 else -1
        elif ours == "message-ttl":
            self._expiry(child, settings)
        elif name == "slow-consumer-threshold":
            self._slow(child, parent, settings)
        else:
            settings[ours] = plain(text.lower() if text.lower() in ("true", "false") else text)

    def _dead_letters(self, child: Element, settings: dict[str, object]) -> None:
        if not child.text:
            _leave(self._found, child, "it is empty: no dead letters are kept")
        elif child.text in self._topics:
            settings["dead-letter-exchange"] = child.text
        else:
            settings |= {"dead-letter-exchange": "", "dead-letter-routing-key": child.text}

    def _expiry(self, child: Element, settings: dict[str, object]) -> None:
        if number_of(child) < 0:
            _leave(self._found, child, "it is negative: messages get no expiration")
        elif "message-ttl" in settings:
            _leave(self._found, child, "message-ttl has the value of the element before")
        else:
            settings["message-ttl"] = number_of(child)
            if child.name == "expiry-delay":
                why = "message-ttl is also the most for a message that has an expiration of its own"
                self._found.remark(child.line, f"<{child.name}>", why, False)

    def _slow(self, child: Element, parent: Element, settings: dict[str, object]) -> None:
        unit = parent.child("slow-consumer-threshold-measurement-unit")
        name = "MESSAGES_PER_SECOND" if unit is None else unit.text
        if name not in UNIT_S:
            raise ConfigError(f"line {child.line}: '{name}' is not a unit; known are {', '.join(UNIT_S)}")
        threshold = number_of(child)
        if threshold == 0:
            _leave(self._found, child, "0 would make only idle consumers slow, and a rate is more than 0")
        else:
            settings[child.name] = threshold if threshold < 0 or UNIT_S[name] == 1 else threshold / UNIT_S[name]

    def _address(self, element: Element) -> None:
        name = element.attributes.get("name", "")
        if element.name != "address" or not name:
            _leave(self._found, element, NOT_READ)
            return
        _leave_attributes(self._found, element, ("name",))
        for kind in element.children:
            if kind.name not in ("anycast", "multicast"):
                _leave(self._found, kind, "only anycast and multicast are read of an address")
                continue
            if kind.name == "multicast":
                self._topic(element.line, name)
            for queue in kind.children:
                self._queue(name, kind.name == "multicast", queue)

    def _core_queue(self, element: Element) -> None:
        """Convert a queue of the element `queues` (Artemis 1): each queue of an address gets every message."""
        name, address = element.attributes.get("name", ""), element.child("address")
        there = name if address is None else address.text
        if there != name:
            self._topic(element.line, there)
        self._queue(there, there != name, element)

    def _topic(self, line: int, name: str) -> None:
        exchange = {"name": name, "type": "fanout", "durable": True, "auto_delete": False}
        self._found.add(line, "exchanges", {**exchange, "internal": False, "arguments": {}})
        self._bound_exchange(line, name)

    def _queue(self, address: str, is_topic: bool, element: Element) -> None:
        name = element.attributes.get("name", "")
        if element.name != "queue" or not name:
            _leave(self._found, element, "only queues with a name are read")
            return
        _leave_attributes(self._found, element, ("name",))
        durable = True
        for child in element.children:
            if child.name == "durable":
                durable = _flag(child)
            elif child.name != "address":
                _leave(self._found, child, "set it as an argument, or in the binding")
        queue = {"name": name, "durable": durable, "auto_delete": False, "arguments": {}}
        if is_topic:
            self._found.add(element.line, "queues", queue)
            binding = {"source": address, "destination": name, "destination_type": "queue", "routing_key": ""}
            self._found.add(element.line, "bindings", {**binding, "arguments": {}})
            words = {key: value for key, value in self._settings_of(address).items() if key not in BOUNDS}
            self._found.set(element.line, "queue", name, words)
        elif name == address:
            self._found.add(element.line, "queues", queue)
        else:
            _leave(self._found, element, f"an anycast queue has the name of its address here: '{address}'", f" {name}")

    def _bound_exchange(self, line: int, name: str) -> None:
        """Bound an exchange like its address; policies other than BLOCK belong to its queues."""
        words = self._settings_of(name)
        if str(words.get("address-full-policy", "BLOCK")).upper() == "BLOCK":
            bounds = {key: words[key] for key in BOUNDS if words.get(key, -1) != -1}
            self._found.set(line, "address", name, bounds)

    def _settings_of(self, address: str) -> dict[str, object]:
        """Return the settings of an address: of all matches, of which the most specific wins."""
        words: dict[str, object] = {}
        for pattern in reversed(self._patterns.matching(address)):
            words |= self._settings[pattern]
        return words

    def _of_broker(self, element: Element) -> None:
        name, text = element.name, element.text
        if name == "global-max-size" and text.startswith("-"):
            _leave(self._found, element, "a negative value is the default there; memory-capacity has its own")
        elif name == "max-disk-usage" and self._core.child("min-disk-free") is not None:
            _leave(self._found, element, "min-disk-free takes precedence over it")
        elif name == "min-disk-free":
            if text.startswith("-"):
                _leave(self._found, element, "it is negative: there is no minimum")
            else:
                self._found.set(element.line, "broker", "", {name: _octets(element)})
        else:
            self._found.set(element.line, "broker", "", {name: plain(text)})


def _topics(core: Element) -> set[str]:
    """Return the names of the multicast addresses."""
    addresses = core.child("addresses")
    declared = [] if addresses is None else addresses.children
    return {each.attributes.get("name", "") for each in declared if each.child("multicast") is not None}


def _leave(found: Conversion, element: Element, reason: str, name: str = "") -> None:
    if element.is_include:
        reason = f"the file '{element.attributes.get('href', '')}' is not followed: convert it too"
    found.remark(element.line, f"<{element.name}>{name}", reason)


def _leave_attributes(found: Conversion, element: Element, known: tuple[str, ...]) -> None:
    for name in element.attributes:
        if name not in known:
            check_spelling(element.line, name, known)
            found.remark(element.line, f"attribute {name} of <{element.name}>", "it is not read")


def _leave_others(found: Conversion, parent: Element, known: tuple[str, ...]) -> None:
    """Add a remark for each child that has no conversion."""
    for element in parent.children:
        if element.name not in known:
            check_spelling(element.line, element.name, known)
            reasons = [reason for prefix, reason in PREFIXES.items() if element.name.startswith(prefix)]
            _leave(found, element, reasons[0] if reasons else NOT_READ)


def _character(element: Element) -> str:
    if len(element.text) != 1:
        raise ConfigError(f"line {element.line}: {element.name} '{element.text}' must be one character")
    return element.text


def _flag(element: Element) -> bool:
    if element.text not in ("true", "false"):
        raise ConfigError(f"line {element.line}: {element.name} '{element.text}' is neither true nor false")
    return element.text == "true"


def _octets(element: Element) -> int:
    """Return a size with one of Artemis' units in bytes."""
    if AMOUNT.fullmatch(element.text) is None:
        return number_of(element)
    found = amount(element.text, ARTEMIS_UNITS)
    if found is None:
        raise ConfigError(f"line {element.line}: {element.name} '{element.text}' has an unknown unit")
    return int(found)
