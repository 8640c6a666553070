"""Check of federation upstreams: parameters that have no effect here, and that RabbitMQ's tools expect to be checked.

Keys, kinds and words of the values are those of RabbitMQ's federation plugin.
"""

from __future__ import annotations

import json
from typing import Final

from penstock.core.queue.types import TYPES
from penstock.core.settings.table import Parameter
from penstock.errors import PreconditionFailed

UPSTREAM: Final = "federation-upstream"
"""Component of the parameters."""
SCHEMES: Final = ("amqp:", "amqps:")
TEXT, NUMBER, FLAG = "a string", "a number", "true or false"
KINDS: Final[dict[str, str]] = {
    key: kind
    for kind, keys in {
        TEXT: "exchange queue consumer-tag",
        NUMBER: "prefetch-count reconnect-delay max-hops expires message-ttl",
        FLAG: "trust-user-id bind-nowait",
    }.items()
    for key in keys.split()
}
"""Kind of the value of a key."""
WORDS: Final[dict[str, tuple[str, ...]]] = {
    "ack-mode": ("no-ack", "on-publish", "on-confirm"),
    "resource-cleanup-mode": ("default", "never"),
    "queue-type": tuple(TYPES),
    "channel-use-mode": ("multiple", "single"),
}
OLD: Final = ("ha-policy",)
"""Keys of former versions, which every value passes."""
KEYS: Final = ("uri", *sorted([*OLD, *KINDS, *WORDS]))


def check_upstream(parameter: Parameter) -> None:
    """Check a federation upstream; other parameters pass. Raises PreconditionFailed (406) with the key and the rule."""
    if parameter.component != UPSTREAM:
        return
    # RabbitMQ's tools look for its first words.
    value, title = parameter.value, f"Validation failed: federation upstream '{parameter.name}'"
    if not isinstance(value, dict):
        raise PreconditionFailed(f"{title}: the value must be an object, not {json.dumps(value)}")
    _check_uri(title, value.get("uri"))
    for key, given in value.items():
        if key != "uri":
            _check(title, key, given)


def _check_uri(title: str, uri: object) -> None:
    uris = uri if isinstance(uri, list) else [uri]
    if not uris or not all(isinstance(each, str) and each.startswith(SCHEMES) for each in uris):
        raise PreconditionFailed(f"{title}: 'uri' must be a URI of amqp or amqps, or a list of them")


def _check(title: str, key: str, given: object) -> None:
    if key in KINDS and not _is(KINDS[key], given):
        raise PreconditionFailed(f"{title}: '{key}' must be {KINDS[key]}, not {json.dumps(given)}")
    if key in WORDS and given not in WORDS[key]:
        words = ", ".join(WORDS[key])
        raise PreconditionFailed(f"{title}: '{key}' must be one of {words}, not {json.dumps(given)}")
    if key not in KEYS:
        raise PreconditionFailed(f"{title}: unknown key '{key}'; there are {', '.join(KEYS)}")


def _is(kind: str, given: object) -> bool:
    """Return whether a value is of a kind."""
    if kind == TEXT:
        return isinstance(given, str)
    is_flag = isinstance(given, bool)
    return is_flag if kind == FLAG else isinstance(given, int | float) and not is_flag
