"""Parsing of declaration arguments and pattern settings into the broker's own setting names."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from penstock.errors import NotSupported, PreconditionFailed
from penstock.settings.kind import INVALID, NO_NONE, Choices, Flag, Kind, Number, unknown_name, whole
from penstock.settings.placed import place, placed
from penstock.settings.table import (
    ALIASES,
    ARTEMIS_POLICIES,
    ARTEMIS_SIZES,
    BY_NAME,
    CONSUMERS,
    LIMITS_OF_QUEUES,
    LINKS,
    NEGATIVE_IS_NONE,
    NUMBER_MAX,
    OURS,
    OVERFLOW,
    OVERFLOW_ALIASES,
    RATES,
    SCOPED_ALIASES,
    SCOPES,
    USAGE,
    WHOLE_RATES,
    ZERO_IS_NONE,
    SettingValue,
    shown,
)
from penstock.settings.without_effect import OF_QUEUES
from penstock.texts import BYTES, hint, nearest

PRIORITY_MAX: Final = 255
"""Highest priority of a message: a byte (AMQP 0-9-1 section 1.8.1)."""
CONSUMER_PRIORITY_MAX: Final = (1 << 31) - 1
"""Largest distance of a consumer's priority from 0."""
MAX_PRIORITY: Final = whole(0, PRIORITY_MAX)
CONSUMER_PRIORITY: Final = Number("", -CONSUMER_PRIORITY_MAX, CONSUMER_PRIORITY_MAX)
FEATURES: Final = frozenset({"x-max-priority", "x-single-active-consumer", "x-queue-type"})
"""Arguments of queues that are fixed features (core/queue/types.py)."""


def read_priority(tag: str, arguments: dict[str, object]) -> int:
    """Return the priority of a consumer (x-priority), 0 by default. Raises PreconditionFailed (406)."""
    priority: int = _typed(f"consumer '{tag}'", "x-priority", CONSUMER_PRIORITY, arguments.get("x-priority", 0))
    return priority


def optional_argument(subject: str, name: str, kind: Kind, arguments: dict[str, object], otherwise: object) -> Any:
    """Return the value of an argument that has a type of AMQP. Raises PreconditionFailed (406)."""
    value = arguments.get(name)
    return otherwise if value is None else _typed(subject, name, kind, value)


def _typed(subject: str, name: str, kind: Kind, value: object) -> Any:
    found = kind.parse(value, True)
    if found is INVALID:
        raise PreconditionFailed(f"{subject}: {kind.fault(name, value)}")
    return found


# fmt: off
FOREIGN: Final[dict[str, str]] = {
    "dead-letter-address": "dead-letter-exchange and dead-letter-routing-key name the target of dead letters",
    "expiry-address": "dead-letter-exchange names the target of expired messages too",
    "max-delivery-attempts": "delivery-limit is the number of redeliveries, one less than that of the attempts",
    "max-size-bytes-reject-threshold": "a publish beyond the capacity is held, and refused after hold-deadline",
    "slow-consumer-threshold-measurement-unit": "slow-consumer-rate is in messages a second",
    "send-to-dla-on-no-route": "the argument alternate-exchange of an exchange takes what has no route",
    "redistribution-delay": "messages do not move between brokers",
    "default-exclusive-queue": "declare the queue with x-single-active-consumer",
    "auto-create-addresses": "an exchange is declared by a client or by definitions",
    "auto-delete-addresses": "declare the exchange with auto-delete",
    "auto-delete-queues": "declare the queue with auto-delete, or set expires",
    "auto-delete-queues-delay": "set expires",
    "producer-window-size": "set credit-window-bytes, the window of links that publish",
    "consumer-window-size": "set consumer-window-bytes",
    "producer-max-rate": "set rate-messages in scope producer",
    **dict.fromkeys(("expiry-delay", "min-expiry-delay", "max-expiry-delay", "no-expiry"),
                    "message-ttl bounds the time of every message in a queue, and its own expiration is kept if it"
                    " is shorter"),
    "redelivery-delay": "set retry-delay",
    "max-redelivery-delay": "set retry-delay-max",
    "redelivery-delay-multiplier": "retry-delay doubles with each failed delivery, up to retry-delay-max",
    "redelivery-collision-avoidance-factor": "each message has its own retry-delay, without jitter",
    **dict.fromkeys(("page-size-bytes", "page-max-cache-size"),
                    "a page has 512 KiB or half of the capacity, and the size cannot be set"),
    **dict.fromkeys(("max-read-page-bytes", "max-read-page-messages", "prefetch-page-bytes",
                     "prefetch-page-messages"),
                    "at most 4 MiB of pages are read ahead of the consumers"),
    **dict.fromkeys(("default-last-value-queue", "default-last-value-key", "default-non-destructive"),
                    "queues here keep all values"),
    **dict.fromkeys(("default-ring-size", "ring-size"),
                    "capacity-messages with overflow=drop-head is a ring"),
    **dict.fromkeys(("default-max-consumers", "default-purge-on-no-consumers"),
                    "declare the queues with the arguments that they need"),
    **dict.fromkeys(("default-queue-routing-type", "default-address-routing-type"),
                    "the type of the exchange decides: a queue each is ANYCAST, a fanout or topic exchange is"
                    " MULTICAST"),
    **dict.fromkeys(("config-delete-queues", "config-delete-addresses"),
                    "definitions delete nothing"),
    **dict.fromkeys(("min-large-message-size", "minLargeMessageSize", "amqpMinLargeMessageSize"),
                    "the start-up setting min-large-message says from which size messages come in pieces"),
    **dict.fromkeys(("amqpLowCredits", "amqpMinCredits"),
                    "credit is granted again as room allows; credit-window-messages is the most of it"),
    **dict.fromkeys(("confirmation-window-size", "confirmationWindowSize"),
                    "links of AMQP 1.0 resume by their unsettled deliveries"),
}
# fmt: on
"""Names of Artemis' address settings, acceptors and connectors, each with its replacement.

The names are from address-settings.adoc and configuration-index.adoc. Other unknown names are refused without advice.
"""
KEYS_WITHOUT_EFFECT: Final = frozenset(
    (
        *("max-priority", "single-active-consumer", "ha-mode", "ha-params", "ha-sync-mode", "ha-sync-batch-size"),
        *("ha-promote-on-shutdown", "ha-promote-on-failure", "queue-mode", "queue-version", "queue-master-locator"),
        *("queue-leader-locator", "initial-cluster-size", "target-group-size", "max-in-memory-length"),
        *(
            "max-in-memory-bytes",
            "consumer-disconnected-timeout",
            "member-placement-tag",
        ),
        *("stream-filter-size-bytes", "shards-per-node", "routing-key", "message-deduplication"),
    )
)
"""Keys of policies about the storage of a queue, streams and sharding: stored, exported again and reported."""

_RETRY: Final = "set retry-delay and retry-delay-max: each failed delivery doubles the delay, where RabbitMQ adds to it"
OF_RABBITMQ: Final = dict.fromkeys(("delayed-retry-type", "delayed-retry-min", "delayed-retry-max"), _RETRY)
"""Names of RabbitMQ that must not be ignored, each with the consequence and the replacement."""
_DELAY: Final = (
    "messages would be delivered at once; declare an exchange of type x-delayed-message, with x-delayed-type"
)
OF_EXCHANGES: Final = {
    "x-alternate-exchange": "messages without a route would be lost; use the argument alternate-exchange",
    "x-delayed-exchange": _DELAY,
    "delayed-message": _DELAY,
}
"""The same for LavinMQ, as written there: arguments of exchanges, and a key of their policies."""
_CREDIT: Final = "the consumer would get more than it asked for; basic.qos bounds its unacknowledged deliveries"


def check_foreign(subject: str, name: str) -> None:
    """Raise PreconditionFailed (406) for a name of both tables, with or without the prefix `x-`."""
    own = name.removeprefix("x-")
    advice = FOREIGN.get(name) or FOREIGN.get(own)
    if advice is not None:
        raise PreconditionFailed(f"{subject}: there is no setting {name}, which is one of Artemis; {advice}")
    if own in OF_RABBITMQ:
        raise PreconditionFailed(f"{subject}: {name} of RabbitMQ is not supported here; {OF_RABBITMQ[own]}")
    if name in OF_EXCHANGES:
        raise PreconditionFailed(f"{subject}: {name} of LavinMQ is not supported here; {OF_EXCHANGES[name]}")
    if name == "x-credit":
        raise PreconditionFailed(f"{subject}: x-credit of RabbitMQ 3 is not supported here; {_CREDIT}")


def check_exchange_arguments(exchange: str, arguments: dict[str, object]) -> None:
    """Raise PreconditionFailed (406) for an argument whose omission would lose messages, or deliver them too early."""
    for name in OF_EXCHANGES:
        if name in arguments:
            check_foreign(f"exchange '{exchange}'", name)


USED: Final = Number(most=100, whole=False, above=True, noun="a percentage")
"""Share of the memory or the file system, in percent."""
ARTEMIS_UNITS: Final = {"b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}
"""Powers of 1,024 in Artemis (ByteUtil.java), also with a B; only for its own setting names."""
RATE_PREFIXES: Final = ("rate-", "burst-", "producer")
RATE_PROPERTIES_MAX: Final = 16
"""Most properties of a client that resemble a setting of rates; above, no login is accepted when they are compared."""
NEARLY: Final = 0.8
"""Similarity (difflib) above which an unknown name counts as a misspelling of a known name."""
RABBITMQS_NUMBERS: Final = (
    *("x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes", "x-stream-max-segment-size-bytes"),
)
"""Arguments that RabbitMQ takes as integers only."""
PATTERN_MAX: Final = 255
"""Bytes of a pattern: as long as a name may be (a short string, AMQP 0-9-1 section 4.2.5.3)."""
FLOW_PREFIXES: Final = (
    *("qpid.", "x-qpid", "capacity", "stop", "resume", "overflow", "hold", "flow", "default-flow", "maximumQueue"),
    *("queue.", "max-size", "address-full", "page-", "consumer-", "consumerW", "consumerM", "credit-", "producerW"),
    *("amqpC", "slow-consumer", "cursor-max", "dead-le", "disk-", "min-disk", "max-pr", "single-active", "queue-type"),
    *("message-t", "delivery-l", "expire"),
)
"""Prefixes of settings and features, without x-: an unknown argument with one is refused as a misspelling."""
SPELT_LEAST: Final = 8
SPELT_MOST: Final = 40
"""Characters of a name that is compared with the known names character by character."""
_OWN_ALIASES: Final = ALIASES | SCOPED_ALIASES["producer"]


READ_MAX: Final = 1_000
READ_LETTERS: Final = 1_000
"""Most arguments that are cached with their settings, and most characters of their text; at the bound all are
dropped.
"""
_READ: Final[dict[str, dict[str, SettingValue]]] = {}
"""Settings by the text of the arguments."""


def read_arguments(queue: str, arguments: dict[str, object]) -> dict[str, SettingValue]:
    """Read the arguments of a queue.declare that are settings, by the broker's own names; the result must not be
    changed.

    Raises PreconditionFailed (406) for an invalid value, a contradiction between two names of one setting or a misspelt
    flow-control argument, and NotSupported (406) for an argument that must not be ignored. Nothing is created.
    """
    text = repr(arguments)
    values = _READ.get(text)
    if values is None:
        values = _read_arguments(f"queue '{queue}'", arguments)
        if len(_READ) >= READ_MAX:
            _READ.clear()
        if len(text) <= READ_LETTERS:
            _READ[text] = values
    return values


def _read_arguments(subject: str, arguments: dict[str, object]) -> dict[str, SettingValue]:
    values: dict[str, SettingValue] = {}
    for name, value in arguments.items():
        ours = name if name in OURS else ALIASES.get(name)
        if ours is None:
            _check_unknown(subject, name)
        else:
            if name in RABBITMQS_NUMBERS and isinstance(value, str):
                raise PreconditionFailed(f"{subject}: {whole().fault(name, value)}")
            _add(values, subject, ours, read_value(subject, name, BY_NAME[ours].kind, value))
    return values


def read_consume_arguments(tag: str, arguments: dict[str, object]) -> dict[str, SettingValue]:
    """Read the arguments of a basic.consume that are settings, by the broker's own names.

    Raises PreconditionFailed (406) for an invalid value, and for a name that nearly matches a known name.
    """
    return _read_own(f"consumer '{tag}'", tuple(setting.name for setting in CONSUMERS), arguments)


def read_link_properties(link: str, properties: dict[str, object]) -> dict[str, SettingValue]:
    """Read the properties of an incoming link that are settings of its credit or rates, by the broker's own names.

    Raises PreconditionFailed (406) for an invalid value, and for a name that nearly matches a known name.
    """
    return _read_own(f"link '{link}'", LINKS, properties)


def read_client_properties(properties: dict[str, object]) -> dict[str, SettingValue]:
    """Read the properties of a client that are rates of its producers, by the broker's own names.

    Raises PreconditionFailed (406) for an invalid value, and for a name that nearly matches a known name.
    """
    named = {name: value for name, value in properties.items() if name.lower().startswith(RATE_PREFIXES)}
    if len(named) > RATE_PROPERTIES_MAX:
        raise PreconditionFailed(f"client: {len(named)} properties of rates; the most is {RATE_PROPERTIES_MAX}")
    return _read_own("client", RATES, named)


def _read_own(subject: str, own: tuple[str, ...], arguments: dict[str, object]) -> dict[str, SettingValue]:
    """Read the settings that an object may set for itself; other names are ignored."""
    values: dict[str, SettingValue] = {}
    for name, value in arguments.items():
        ours = name if name in own else _OWN_ALIASES.get(name, "")
        if ours in own:
            _add(values, subject, ours, read_value(subject, name, BY_NAME[ours].kind, value))
            continue
        check_foreign(subject, name)
        known = [*own, *[alias for alias, setting_value in _OWN_ALIASES.items() if setting_value in own]]
        if nearest(name, known, cutoff=NEARLY):
            raise PreconditionFailed(unknown_name(subject, "setting", name, known))
    return values


def check_scope(scope: str) -> None:
    """Raise PreconditionFailed (406) for an unknown scope."""
    if scope not in SCOPES:
        raise PreconditionFailed(f"scope '{shown(scope)}' is not known; {hint(scope, SCOPES)}")


def read_pattern(scope: str, text: str) -> str:
    """Return a pattern in its stored form (placed.py); empty for the scope of the broker, which has only one member.

    Raises PreconditionFailed (406) for an invalid pattern.
    """
    check_scope(scope)
    if scope == "broker":
        if text:
            raise PreconditionFailed(
                f"there is one broker, so scope broker takes no pattern; leave out '{shown(text)}'"
            )
        return ""
    vhost, pattern = placed(scope, text)
    if vhost == "":
        raise PreconditionFailed(
            f"{scope} pattern '{shown(text)}' begins with a slash: name its virtual host, %2F for /, or * for all"
        )
    if not pattern:
        raise PreconditionFailed(f"scope {scope} needs a pattern of names; # matches all")
    if len(pattern.encode(errors="replace")) > PATTERN_MAX:
        raise PreconditionFailed(f"{scope} pattern '{shown(pattern)}' is longer than {PATTERN_MAX} bytes")
    for word in (pattern.replace("/", ".", 1) if scope == "address" else pattern).split("."):
        for wildcard, meaning in (("*", "one whole word"), ("#", "any number of whole words")):
            if wildcard in word and word != wildcard:
                raise PreconditionFailed(
                    f"{scope} pattern '{pattern}': {wildcard} in '{word}' must be a whole word; "
                    f"it matches {meaning} between dots"
                )
    return place(scope, vhost, pattern)


def read_settings(
    scope: str, pattern: str, settings: dict[str, object], override: bool = False
) -> dict[str, SettingValue]:
    """Read the settings of a pattern of a scope, by the broker's own names; as an operator's `override` of queues.

    Raises PreconditionFailed (406) for an unknown setting, a setting of another scope, an invalid value, or two names
    of one setting with different values.
    """
    check_scope(scope)
    subject = f"{scope} '{pattern}'" if pattern else scope
    if override and scope != "queue":
        raise PreconditionFailed(f"{subject}: an override is of queues, whose declarations are stronger than patterns")
    values: dict[str, SettingValue] = {}
    for name, value in settings.items():
        ours = setting_named(scope, name)
        setting_value = read_value(subject, name, BY_NAME[ours].kind, value)
        if scope == "address" and ours == "overflow" and setting_value.text != "block":
            raise PreconditionFailed(
                f"{subject}: {setting_value.describe()} is a policy of queues, and an address blocks at its bound; "
                "give it to the queues with a capacity of theirs: "
                f"`penstock queues set PATTERN {setting_value.describe()}`, or by a policy"
            )
        _add(values, subject, ours, setting_value.overriding() if override else setting_value)
    return values


def setting_named(scope: str, name: str) -> str:
    """Return the broker's own name for a setting of a scope by any of its names. Raises PreconditionFailed (406)."""
    known, scoped = SCOPES[scope], SCOPED_ALIASES.get(scope, {})
    ours = name if name in known else scoped.get(name) or ALIASES.get(name, "")
    if ours in known and scope in ("vhost", "address"):
        _check_sum(scope, name, ours)
    if ours in known:
        return ours
    check_foreign(f"scope {scope}", name)
    elsewhere = [other for other in SCOPES if name in SCOPES[other] or ours in SCOPES[other]]
    if elsewhere:
        raise PreconditionFailed(f"{name} is not a setting of scope {scope}, but of scope {', '.join(elsewhere)}")
    names = [*known, *scoped, *[alias for alias, setting in ALIASES.items() if setting in known]]
    raise PreconditionFailed(unknown_name(f"scope {scope}", "setting", name, names, known))


def _check_sum(scope: str, name: str, ours: str) -> None:
    """Refuse another broker's name for the limit of one queue if it would limit a sum here."""
    if ours not in LIMITS_OF_QUEUES or name in (ours, "x-" + ours):
        return
    if scope == "vhost":
        raise PreconditionFailed(
            f"{name} limits each queue by itself, and {ours} of scope vhost the sum of its queues; for the default of "
            f"each queue of a virtual host set a policy for '.*': penstock policies set defaults '.*' {name}=VALUE"
        )
    if not name.startswith("max-size-"):
        raise PreconditionFailed(
            f"{name} limits one queue, and {ours} of scope address what was routed through an exchange; "
            f"use {ours} here, or {name} in scope queue"
        )


def _add(values: dict[str, SettingValue], subject: str, ours: str, value: SettingValue) -> None:
    earlier = values.get(ours)
    if earlier is not None and earlier.value() != value.value():
        raise PreconditionFailed(f"{subject}: {value.describe()} contradicts {earlier.describe()}; both set {ours}")
    values[ours] = value


def _without_a_letter(name: str) -> set[str]:
    """Return a name in lower case without x-: unchanged, and with each of its characters removed in turn."""
    name = name.lower().removeprefix("x-")
    return {name, *(name[:at] + name[at + 1 :] for at in range(len(name)))}


@cache
def _spellings() -> frozenset[str]:
    names = [name for name in (*OURS, *ALIASES, *FEATURES) if len(name) >= SPELT_LEAST]
    return frozenset(each for name in names for each in _without_a_letter(name))


def _is_misspelt(name: str) -> bool:
    """Return whether a known name differs in one character, in capitals, or in two exchanged characters."""
    return SPELT_LEAST <= len(name) + 1 <= SPELT_MOST and not _spellings().isdisjoint(_without_a_letter(name))


def _check_unknown(subject: str, name: str) -> None:
    if name in OF_QUEUES or name in FEATURES:
        return
    check_foreign(subject, name)
    is_ours = name.removeprefix("x-").startswith(FLOW_PREFIXES) or name.startswith((*FLOW_PREFIXES, "x-max"))
    if is_ours or _is_misspelt(name):
        names = [*OURS, *ALIASES, *sorted(FEATURES)]
        raise PreconditionFailed(unknown_name(subject, "argument", name, names, OURS))


@cache
def kind_named(name: str, kind: Kind) -> Kind:
    """Return the kind of values by a name of a setting: another broker's name takes the values of that broker."""
    if name == "address-full-policy":
        return Choices(OVERFLOW_ALIASES | ARTEMIS_POLICIES, article=OVERFLOW.article)
    if not isinstance(kind, Number):
        return kind
    if name in WHOLE_RATES:
        return kind.but(least=1, whole=True, above=False, special={-1: kind.none})
    if name in USAGE:
        kind = USED.but(none=kind.none)
    special = {number: kind.none for number, names in ((0, ZERO_IS_NONE), (-1, NEGATIVE_IS_NONE)) if name in names}
    if special and kind.none is not NO_NONE:
        kind = kind.but(special=special)
    return kind.but(units=BYTES | ARTEMIS_UNITS) if name in ARTEMIS_SIZES else kind


def read_value(subject: str, name: str, kind: Kind, value: object) -> SettingValue:
    """Parse a value. Raises PreconditionFailed (406) that names `subject`, setting, value and rule."""
    if kind is OVERFLOW and _text(value) == "none":
        reason = "a queue without a policy would ignore its capacity; use block, reject or drop-head"
        raise NotSupported(f"{subject}: {name}={shown(value)} is not supported: {reason}")
    kind = kind_named(name, kind)
    found: object = _share(name, kind, value)
    if found is None:
        found = kind.parse(value)
    if found is INVALID:
        raise PreconditionFailed(f"{subject}: {kind.fault(name, value)}")
    if isinstance(found, SettingValue):
        return found
    if not isinstance(kind, Number):
        return SettingValue(name, value, text=str(found).lower() if isinstance(kind, Flag) else str(found))
    if found == kind.none:
        return SettingValue(name, value, none=True, number=-1)
    assert isinstance(found, int | float)
    number = found - 1 if name.startswith("qpid.flow_resume") else found
    return SettingValue(name, value, number=int(number), real=float(number))


def _share(name: str, kind: Kind, value: object) -> object:
    """Return a share of the memory, or of the free or used part of the file system; None for another value."""
    text = value.strip() if isinstance(value, str) else ""
    if name in USAGE:
        used: object = kind.parse(text.removesuffix("%") if text else value)
        if not isinstance(used, int | float) or used == NUMBER_MAX:
            return used
        return SettingValue(name, value, real=100 - used, text="%", none=used == 100)
    if not (isinstance(kind, Number) and kind.also and text.endswith("%")):
        return None
    share: object = USED.parse(text.removesuffix("%"))
    return SettingValue(name, value, real=share, text="%") if isinstance(share, float) else INVALID


def _text(value: object) -> str:
    return (value.decode(errors="replace") if isinstance(value, bytes) else str(value)).strip().lower()
