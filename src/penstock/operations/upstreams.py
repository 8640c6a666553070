"""Check of federation upstreams: parameters that have no effect here, and that RabbitMQ's tools expect to be checked.

Keys, kinds and words of the values are those of RabbitMQ's federation plugin.
"""

from __future__ import annotations

from typing import Final

from penstock.core.queue.types import TYPES
from penstock.core.settings.table import Parameter
from penstock.errors import PreconditionFailed
from penstock.settings.kind import FLAG, INVALID, OBJECT, REAL, TEXT, Choices, Kind, unknown_name

UPSTREAM: Final = "federation-upstream"
"""Component of the parameters."""
SCHEMES: Final[tuple[str, ...]] = ("amqp:", "amqps:")
NUMBERS: Final = "prefetch-count reconnect-delay max-hops expires message-ttl"
KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("exchange", "queue", "consumer-tag"), TEXT),
    **dict.fromkeys(NUMBERS.split(), REAL),
    **dict.fromkeys(("trust-user-id", "bind-nowait"), FLAG),
    "ack-mode": Choices(("no-ack", "on-publish", "on-confirm"), folded=False),
    "resource-cleanup-mode": Choices(("default", "never"), folded=False),
    "queue-type": Choices(tuple(TYPES), folded=False),
    "channel-use-mode": Choices(("multiple", "single"), folded=False),
}
"""Kind of the value of a key."""
OLD: Final[tuple[str, ...]] = ("ha-policy",)
"""Keys of former versions, which every value passes."""
KEYS: Final[tuple[str, ...]] = ("uri", *sorted([*OLD, *KINDS]))


def check_upstream(parameter: Parameter) -> None:
    """Check a federation upstream; other parameters pass. Raises PreconditionFailed (406) with the key and the rule."""
    if parameter.component != UPSTREAM:
        return
    # RabbitMQ's tools look for its first words.
    value, title = parameter.value, f"Validation failed: federation upstream '{parameter.name}'"
    if not isinstance(value, dict):
        raise PreconditionFailed(f"{title}: {OBJECT.fault('the value', value)}")
    _check_uri(title, value.get("uri"))
    for key, given in value.items():
        if key != "uri":
            _check(title, key, given)


def _check_uri(title: str, uri: object) -> None:
    uris = uri if isinstance(uri, list) else [uri]
    if not uris or not all(isinstance(each, str) and each.startswith(SCHEMES) for each in uris):
        raise PreconditionFailed(f"{title}: 'uri' must be a URI of amqp or amqps, or a list of them")


def _check(title: str, key: str, given: object) -> None:
    kind = KINDS.get(key)
    if kind is not None and kind.parse(given, True) is INVALID:
        raise PreconditionFailed(f"{title}: {kind.fault(key, given)}")
    if key not in KEYS:
        raise PreconditionFailed(f"{title}: {unknown_name('an upstream', 'key', key, KEYS)}")
