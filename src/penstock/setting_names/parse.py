"""Parsing of declaration arguments and pattern settings into the broker's own setting names."""

from __future__ import annotations

from typing import Final

from penstock.errors import PreconditionFailed
from penstock.setting_names.features import FEATURES
from penstock.setting_names.foreign_names import check_foreign
from penstock.setting_names.near import nearest
from penstock.setting_names.setting_names import (
    ALIASES,
    FLOW_PREFIXES,
    LIMITS_OF_QUEUES,
    OURS,
    SCOPED_ALIASES,
    SCOPES,
    WITHOUT_EFFECT,
)
from penstock.setting_names.setting_value import SettingValue, read_value, shown

CONSUMERS: Final[tuple[str, ...]] = (
    "consumer-window-bytes",
    "consumer-max-rate",
    "slow-consumer-rate",
    "slow-consumer-period",
    "slow-consumer-policy",
)
"""Settings that a consumer may set for itself."""
CREDITS: Final[tuple[str, ...]] = ("credit-window-messages", "credit-window-bytes", "credit-idle")
"""Settings that an incoming link may set for itself."""
RATES: Final[tuple[str, ...]] = tuple(SCOPES["producer"])
"""Settings that a sender may set for itself: they can only lower its rates."""
_KINDS: Final = SCOPES["queue"] | SCOPES["producer"]
_ALIASES: Final = ALIASES | SCOPED_ALIASES["producer"]
RATE_PREFIXES: Final = ("rate-", "burst-", "producer")
RATE_PROPERTIES_MAX: Final = 16
"""Most properties of a client that begin like a setting of rates; it is not logged in when they are compared."""
NEARLY: Final = 0.8
"""Similarity (difflib) from which an unknown name counts as a misspelling of a known one."""
RABBITMQS_NUMBERS: Final = ("x-message-ttl", "x-expires", "x-max-length", "x-max-length-bytes")
"""Arguments that RabbitMQ takes as integers only."""
PATTERN_MAX: Final = 255
"""Octets of a pattern: as long as a name may be (a short string, AMQP 0-9-1 section 4.2.5.3)."""


def read_arguments(queue: str, arguments: dict[str, object]) -> dict[str, SettingValue]:
    """Read the arguments of a queue.declare that are settings, by the broker's own names.

    Raises PreconditionFailed (406) for an invalid value, a contradiction between two names of one setting or a misspelt
    flow-control argument, and NotImplementedHere (540) for one that must not be ignored. Nothing is created.
    """
    subject = f"queue '{queue}'"
    words: dict[str, SettingValue] = {}
    for name, value in arguments.items():
        ours = name if name in OURS else ALIASES.get(name)
        if ours is None:
            _check_unknown(subject, name, value)
        else:
            _check_number(subject, name, value)
            _add(words, subject, ours, read_value(subject, name, SCOPES["queue"][ours], value))
    return words


def read_consume_arguments(tag: str, arguments: dict[str, object]) -> dict[str, SettingValue]:
    """Read the arguments of a basic.consume that are settings, by the broker's own names.

    Raises PreconditionFailed (406) for an invalid value, and for a name that is nearly a known one.
    """
    return _read_own(f"consumer '{tag}'", CONSUMERS, arguments)


def read_link_properties(link: str, properties: dict[str, object]) -> dict[str, SettingValue]:
    """Read the properties of an incoming link that are settings of its credit or rates, by the broker's own names.

    Raises PreconditionFailed (406) for an invalid value, and for a name that is nearly a known one.
    """
    return _read_own(f"link '{link}'", (*CREDITS, *RATES), properties)


def read_client_properties(properties: dict[str, object]) -> dict[str, SettingValue]:
    """Read the properties of a client that are rates of its producers, by the broker's own names.

    Raises PreconditionFailed (406) for an invalid value, and for a name that is nearly a known one.
    """
    named = {name: value for name, value in properties.items() if name.lower().startswith(RATE_PREFIXES)}
    if len(named) > RATE_PROPERTIES_MAX:
        raise PreconditionFailed(f"client: {len(named)} properties of rates; the most is {RATE_PROPERTIES_MAX}")
    return _read_own("client", RATES, named)


def _read_own(subject: str, own: tuple[str, ...], arguments: dict[str, object]) -> dict[str, SettingValue]:
    """Read the settings that an object may set for itself; other names are left out."""
    words: dict[str, SettingValue] = {}
    for name, value in arguments.items():
        ours = name if name in own else _ALIASES.get(name, "")
        if ours in own:
            _add(words, subject, ours, read_value(subject, name, _KINDS[ours], value))
            continue
        check_foreign(subject, name)
        known = [*own, *[alias for alias, word in _ALIASES.items() if word in own]]
        near = nearest(name, known, cutoff=NEARLY)
        if near:
            raise PreconditionFailed(f"{subject}: unknown argument {name}={shown(value)}; did you mean {near}?")
    return words


def check_scope(scope: str) -> None:
    """Raise PreconditionFailed (406) for an unknown scope."""
    if scope not in SCOPES:
        near = nearest(scope, SCOPES)
        hint = f"did you mean {near}?" if near else f"known are {', '.join(SCOPES)}"
        raise PreconditionFailed(f"scope '{shown(scope)}' is not known; {hint}")


def read_pattern(scope: str, pattern: str) -> str:
    """Return a pattern in its stored form; empty for the scope of the broker, which has only one member.

    Raises PreconditionFailed (406) for an invalid pattern.
    """
    check_scope(scope)
    if scope == "broker":
        if pattern:
            raise PreconditionFailed(
                f"there is one broker, so scope broker takes no pattern; leave out '{shown(pattern)}'"
            )
        return ""
    if not pattern:
        raise PreconditionFailed(f"scope {scope} needs a pattern of names; # matches all")
    if len(pattern.encode(errors="replace")) > PATTERN_MAX:
        raise PreconditionFailed(f"{scope} pattern '{shown(pattern)}' is longer than {PATTERN_MAX} octets")
    for word in (pattern.replace("/", ".", 1) if scope == "address" else pattern).split("."):
        for wildcard, meaning in (("*", "one whole word"), ("#", "any number of whole words")):
            if wildcard in word and word != wildcard:
                raise PreconditionFailed(
                    f"{scope} pattern '{pattern}': {wildcard} in '{word}' must be a whole word; "
                    f"it matches {meaning} between dots"
                )
    return pattern


def read_settings(
    scope: str, pattern: str, settings: dict[str, object], override: bool = False
) -> dict[str, SettingValue]:
    """Read the settings of a pattern of a scope, by the broker's own names; as an operator's `override` of queues.

    Raises PreconditionFailed (406) for an unknown setting, one of another scope, an invalid value, or two names of one
    setting with different values.
    """
    check_scope(scope)
    subject = f"{scope} '{pattern}'" if pattern else scope
    if override and scope != "queue":
        raise PreconditionFailed(f"{subject}: an override is of queues, whose declarations are stronger than patterns")
    known = SCOPES[scope]
    words: dict[str, SettingValue] = {}
    for name, value in settings.items():
        ours = setting_named(scope, name)
        word = read_value(subject, name, known[ours], value)
        if scope == "address" and ours == "overflow" and word.text != "block":
            raise PreconditionFailed(
                f"{subject}: {word.describe()} is a policy of queues, and an address blocks at its bound; "
                "give it to the queues with a capacity of theirs: "
                f"`penstock set queue PATTERN {word.describe()}`, or by a policy"
            )
        _add(words, subject, ours, word.overriding() if override else word)
    return words


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
    names = [*known, *scoped, *[alias for alias, word in ALIASES.items() if word in known]]
    near = nearest(name, names)
    hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
    raise PreconditionFailed(f"unknown setting {shown(name)} for scope {scope}; {hint}")


def _check_sum(scope: str, name: str, ours: str) -> None:
    """Refuse another broker's name for the limit of one queue where it would limit a sum."""
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


def _check_number(subject: str, name: str, value: object) -> None:
    if name in RABBITMQS_NUMBERS and isinstance(value, str):
        raise PreconditionFailed(f"{subject}: {name}='{shown(value)}' is not a whole number")


def _add(words: dict[str, SettingValue], subject: str, ours: str, word: SettingValue) -> None:
    earlier = words.get(ours)
    if earlier is not None and earlier.value() != word.value():
        raise PreconditionFailed(f"{subject}: {word.describe()} contradicts {earlier.describe()}; both set {ours}")
    words[ours] = word


def _check_unknown(subject: str, name: str, value: object) -> None:
    if name in WITHOUT_EFFECT or name in FEATURES:
        return
    check_foreign(subject, name)
    if name.removeprefix("x-").startswith(FLOW_PREFIXES) or name.startswith((*FLOW_PREFIXES, "x-max")):
        near = nearest(name, [*OURS, *ALIASES, *sorted(FEATURES)])
        hint = f"; did you mean {near}?" if near else f"; known are {', '.join(OURS)}"
        raise PreconditionFailed(f"{subject}: unknown argument {name}={shown(value)}{hint}")
