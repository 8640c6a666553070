"""Keys of federation upstreams and of sets of them; kinds and words of the values are those of RabbitMQ's plugin.

An entry of a set names an upstream, and may have other values for its keys than the upstream has.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import PreconditionFailed
from penstock.operations.key_table import Key, check_keys, without_effect
from penstock.settings.kind import ANYTHING, FLAG, LIST, REAL, TEXT, Choices

ENTRIES_MOST: Final = 100
"""Most upstreams of a set."""
URI: Final = Key("uri", TEXT, "URI of the upstream, or a list of them.", is_uri=True)
SHARED: Final[tuple[Key, ...]] = (
    Key("ack-mode", Choices(("on-confirm", "on-publish", "no-ack"), folded=False),
        "When a message leaves the upstream: with the confirm here, when it is published, or when it is delivered.",
        default="on-confirm"),
    Key("bind-nowait", FLAG, "Bindings are made without an answer.",
        not_served="each binding has its answer, and many are asked for at a time"),
    Key("channel-use-mode", Choices(("multiple", "single"), folded=False), "Channels of a link.",
        not_served="a link has the channels that it needs"),
    Key("consumer-tag", TEXT, "Beginning of the tag of the consumer at the upstream; without it "
        "federation-link-NAME."),
    Key("exchange", TEXT, "Exchange of the upstream; without it the one of the same name."),
    Key("expires", REAL, "Milliseconds after which the upstream deletes the queue of an exchange whose link is away."),
    Key("ha-policy", ANYTHING, "Mirrors of the queue at the upstream.",
        not_served="RabbitMQ has removed mirrored queues"),
    Key("max-hops", REAL, "Most links that a message of an exchange may come through, this one included.", default=1),
    Key("message-ttl", REAL, "Milliseconds that a message of an exchange waits at the upstream."),
    Key("prefetch-count", REAL, "Most messages on their way.", default=1000),
    Key("queue", TEXT, "Queue of the upstream; without it the one of the same name."),
    Key("queue-type", Choices(("classic", "quorum"), folded=False),
        "Type of the queue that the link of an exchange declares at the upstream; without it the upstream chooses."),
    Key("reconnect-delay", REAL, "Seconds before a lost upstream is tried again; the time doubles up to 30 s.",
        default=5),
    Key("resource-cleanup-mode", Choices(("default", "never"), folded=False),
        "never: the queue at the upstream stays when policy, upstream or exchange are deleted.", default="default"),
    Key("trust-user-id", FLAG, "Keep the user-id of messages of the user that the link runs as; others are always "
        "left out.", default=False),
)  # fmt: skip
KEYS: Final[tuple[Key, ...]] = (URI, *SHARED)
OF_SET: Final[tuple[Key, ...]] = (Key("upstream", TEXT, "Name of an upstream."), *SHARED)


def check_upstream(name: str, value: object) -> None:
    """Check a federation upstream. Raises PreconditionFailed (406) with the key and the rule."""
    # RabbitMQ's tools look for its first words.
    title = f"Validation failed: federation upstream '{name}'"
    if "uri" not in check_keys(title, "an upstream", KEYS, value):
        raise PreconditionFailed(f"{title}: 'uri' must be a URI of amqp or amqps, or a list of them")


def check_upstream_set(name: str, value: object) -> None:
    """Check a set of upstreams; they may be missing yet. Raises PreconditionFailed (406)."""
    title = f"Validation failed: federation upstream set '{name}'"
    if not isinstance(value, list):
        raise PreconditionFailed(f"{title}: {LIST.fault('the value', value, True)}")
    if len(value) > ENTRIES_MOST:
        raise PreconditionFailed(f"{title}: it has {len(value):,} upstreams; the most is {ENTRIES_MOST}")
    for number, entry in enumerate(value):
        place = f"{title}: entry {number}"
        if "upstream" not in check_keys(place, "an entry", OF_SET, entry):
            raise PreconditionFailed(f"{place}: 'upstream' is missing: it names an upstream")


def idle_keys(value: object) -> list[str]:
    """Return a sentence for each key of an upstream, or of the entries of a set, that has no effect here."""
    entries = value if isinstance(value, list) else [value]
    return list(dict.fromkeys([each for entry in entries for each in without_effect(SHARED, entry)]))
