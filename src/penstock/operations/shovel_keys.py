"""Keys of shovels: all keys that RabbitMQ 3.10 to 4.3 know, with AMQP 0-9-1, AMQP 1.0 and `local` at each end.

The keys of an end depend on its protocol: a key of the other protocol is refused, as RabbitMQ refuses it.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import PreconditionFailed
from penstock.operations.key_table import NAME, ROUTING_KEY, Key, check_keys, without_effect
from penstock.settings.kind import FLAG, OBJECT, REAL, TEXT, Choices, Number, whole

AMQP091: Final = "amqp091"
AMQP10: Final = "amqp10"
LOCAL: Final = "local"
PROTOCOLS: Final[tuple[str, ...]] = (AMQP091, AMQP10, LOCAL)
OF_QUEUES: Final[tuple[str, ...]] = (AMQP091, LOCAL)
"""Protocols whose keys name queues and exchanges; those of AMQP 1.0 name addresses."""
QUEUE_LENGTH: Final = "queue-length"
NEVER: Final = "never"
CONSUMER_ARGUMENTS: Final = "src-consumer-args"
SRC: Final = "src"
DEST: Final = "dest"
PREFETCH: Final = 1000
RECONNECT_S: Final = 5
AS_IT_CAME: Final = "a message keeps its sections, as RabbitMQ 4.2 keeps them"
COMMON: Final[tuple[Key, ...]] = (
    Key("ack-mode", Choices(("on-confirm", "on-publish", "no-ack"), folded=False),
        "When a message leaves the source: with the confirm of the target, when it is sent, or when it is delivered.",
        default="on-confirm"),
    Key("reconnect-delay", Number("s", most=86_400, whole=False),
        "Seconds before a lost end is tried again; the time doubles up to 30 s while it fails. 0: not again.",
        default=RECONNECT_S),
    Key("src-protocol", Choices(PROTOCOLS, folded=False), "Protocol of the source.", default=AMQP091),
    Key("dest-protocol", Choices(PROTOCOLS, folded=False), "Protocol of the target.", default=AMQP091),
    Key("internal", FLAG, "Protection from deletion by users.",
        not_served="whoever may set a shovel may delete it"),
    Key("internal_owner", OBJECT, "Object of the broker that the shovel belongs to.",
        not_served="a shovel belongs to no queue or exchange"),
)  # fmt: skip
PUBLISHED: Final[tuple[Key, ...]] = (
    *[Key(name, TEXT, "") for name in (
        "content_type", "content_encoding", "correlation_id", "reply_to", "expiration", "message_id", "type",
        "user_id", "app_id", "cluster_id")],
    *[Key(name, REAL, "") for name in ("delivery_mode", "priority", "timestamp")],
)  # fmt: skip
"""Properties that a shovel may set."""
SOURCE: Final[tuple[Key, ...]] = (
    Key("src-uri", TEXT, "URI of the source, or a list of them; amqp:// is this broker.", is_uri=True),
    Key("src-queue", NAME, "Queue of the source.", protocols=OF_QUEUES),
    Key("src-queue-args", OBJECT, "Arguments with which a missing queue is declared.", protocols=OF_QUEUES),
    Key("src-exchange", NAME, "Exchange of the source, to which a queue of the shovel is bound.", protocols=OF_QUEUES),
    Key("src-exchange-key", ROUTING_KEY, "Binding key of that queue.", protocols=OF_QUEUES, default=""),
    Key("src-address", NAME, "Address of the source.", protocols=(AMQP10,)),
    Key("src-prefetch-count", whole(0, 65_535), "Most messages on their way.", ("prefetch-count",), default=PREFETCH),
    Key("src-delete-after", Number(also="never or queue-length"),
        "Number of messages after which the shovel deletes itself; queue-length for those that the queue has at first.",
        ("delete-after",), (NEVER, QUEUE_LENGTH), NEVER),
    Key("src-delete-after-duration", whole(1), "Seconds after which the shovel deletes itself, from its last start."),
    Key("src-predeclared", FLAG, "A missing queue is awaited, and not declared.", default=False),
    Key(CONSUMER_ARGUMENTS, OBJECT, "Arguments of the consumer, such as x-priority; over AMQP 1.0 without effect."),
    Key("src-consumer-name", TEXT, "Tag of the consumer, or name of the link."),
)  # fmt: skip
TARGET: Final[tuple[Key, ...]] = (
    Key("dest-uri", TEXT, "URI of the target, or a list of them; amqp:// is this broker.", is_uri=True),
    Key("dest-queue", NAME, "Queue of the target.", protocols=OF_QUEUES),
    Key("dest-queue-args", OBJECT, "Arguments with which a missing queue is declared.", protocols=OF_QUEUES),
    Key("dest-exchange", ROUTING_KEY, "Exchange of the target; without queue and exchange it is that of the message.",
        protocols=OF_QUEUES),
    Key("dest-exchange-key", ROUTING_KEY, "Routing key of all messages; without it each keeps its own.",
        protocols=OF_QUEUES),
    Key("dest-address", NAME, "Address of the target.", protocols=(AMQP10,)),
    Key("dest-add-forward-headers", FLAG, "Add the header x-shovelled.", ("add-forward-headers",), default=False),
    Key("dest-add-timestamp-header", FLAG, "Add the header x-shovelled-timestamp.", ("add-timestamp-header",),
        default=False),
    Key("dest-publish-properties", OBJECT, "Properties that replace those of each message.", ("publish-properties",),
        protocols=OF_QUEUES, inner=PUBLISHED),
    Key("dest-predeclared", FLAG, "A missing queue is awaited, and not declared.", default=False),
    Key("dest-properties", OBJECT, "Properties of each message.", protocols=(AMQP10,), not_served=AS_IT_CAME),
    Key("dest-application-properties", OBJECT, "Application properties of each message.", protocols=(AMQP10,),
        not_served=AS_IT_CAME),
    Key("dest-message-annotations", OBJECT, "Annotations of each message.", protocols=(AMQP10,),
        not_served=AS_IT_CAME),
)  # fmt: skip
KEYS: Final[tuple[Key, ...]] = (*SOURCE, *TARGET, *COMMON)
OWNER: Final = "a shovel"


def check_shovel(name: str, value: object) -> dict[str, object]:
    """Check the value of a shovel and return it. Raises PreconditionFailed (406) with the key and the rule."""
    # RabbitMQ's tools look for the first words.
    title = f"Validation failed: shovel '{name}'"
    checked = check_keys(title, OWNER, KEYS, value)
    for side, keys in ((SRC, SOURCE), (DEST, TARGET)):
        protocol = checked.get(f"{side}-protocol", AMQP091)
        for key in keys:
            for given in key.names:
                if given in checked and protocol not in (key.protocols or PROTOCOLS):
                    known = " and ".join(key.protocols)
                    raise PreconditionFailed(
                        f"{title}: '{given}' is a key of the protocols {known}, and '{side}-protocol' is {protocol}"
                    )
        _check_places(title, side, str(protocol), checked)
    after = checked.get("src-delete-after", checked.get("delete-after"))
    if checked.get("ack-mode") == "no-ack" and not isinstance(after, str) and after is not None:
        raise PreconditionFailed(f"{title}: a number of messages in 'src-delete-after' contradicts ack-mode=no-ack")
    return checked


def _check_places(title: str, side: str, protocol: str, value: dict[str, object]) -> None:
    """Check that an end is named, and once."""
    if f"{side}-uri" not in value:
        raise PreconditionFailed(f"{title}: '{side}-uri' is missing")
    if protocol == AMQP10:
        if f"{side}-address" not in value:
            raise PreconditionFailed(f"{title}: '{side}-address' is missing: an end of protocol amqp10 needs it")
        return
    given = [name for name in (f"{side}-queue", f"{side}-exchange") if name in value]
    if len(given) > 1:
        raise PreconditionFailed(f"{title}: '{side}-queue' and '{side}-exchange' contradict each other: give one")
    if side == SRC and not given:
        raise PreconditionFailed(f"{title}: 'src-queue' or 'src-exchange' is missing")


def idle_keys(value: object) -> list[str]:
    """Return a sentence for each key of a shovel that has no effect here."""
    found = without_effect(KEYS, value)
    if isinstance(value, dict) and value.get("src-protocol") == AMQP10 and value.get(CONSUMER_ARGUMENTS):
        found.append(f"{CONSUMER_ARGUMENTS} has no effect: consumers of AMQP 1.0 have no arguments")
    return found
