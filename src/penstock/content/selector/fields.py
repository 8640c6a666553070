"""Fields of a message that selectors name, whatever its protocol.

Jakarta Messaging has a few names for header fields; all others are properties of the message. The names are mapped to
AMQP 1.0 as Qpid JMS maps them. Names that begin with `amqp.` are unchanged fields of AMQP 1.0 (Qpid C++).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from mypy_extensions import i64, mypyc_attr
from typing_extensions import override

from penstock.content.properties import Properties
from penstock.errors import ResourceError

PROPERTY: Final = 0
"""An application property, by its name."""
JMS_MESSAGE_ID: Final = 1
JMS_CORRELATION_ID: Final = 2
"""The ids as texts of Jakarta Messaging: see `id_text`."""
MESSAGE_ID: Final = 3
CORRELATION_ID: Final = 4
PRIORITY: Final = 5
DELIVERY_MODE: Final = 6
"""'PERSISTENT' or 'NON_PERSISTENT'."""
CREATION_TIME: Final = 7
"""Milliseconds since the epoch."""
SUBJECT: Final = 8
TO: Final = 9
REPLY_TO: Final = 10
USER_ID: Final = 11
CONTENT_TYPE: Final = 12
CONTENT_ENCODING: Final = 13
ABSOLUTE_EXPIRY_TIME: Final = 14
GROUP_ID: Final = 15
GROUP_SEQUENCE: Final = 16
REPLY_TO_GROUP_ID: Final = 17

DEFAULT_PRIORITY: Final = 4
"""Priority of a message without one (AMQP 1.0, section 3.2.1; Jakarta Messaging)."""
PERSISTENT: Final = "PERSISTENT"
NON_PERSISTENT: Final = "NON_PERSISTENT"
AMQP: Final = "amqp."

FIELDS: Final = {
    "JMSMessageID": JMS_MESSAGE_ID,
    "JMSCorrelationID": JMS_CORRELATION_ID,
    "JMSPriority": PRIORITY,
    "JMSDeliveryMode": DELIVERY_MODE,
    "JMSTimestamp": CREATION_TIME,
    "JMSType": SUBJECT,
    "JMSXGroupID": GROUP_ID,
    "JMSXGroupSeq": GROUP_SEQUENCE,
    "JMSXUserID": USER_ID,
    "amqp.message_id": MESSAGE_ID,
    "amqp.correlation_id": CORRELATION_ID,
    "amqp.priority": PRIORITY,
    "amqp.delivery_mode": DELIVERY_MODE,
    "amqp.creation_time": CREATION_TIME,
    "amqp.subject": SUBJECT,
    "amqp.jms_type": SUBJECT,
    "amqp.to": TO,
    "amqp.reply_to": REPLY_TO,
    "amqp.user_id": USER_ID,
    "amqp.content_type": CONTENT_TYPE,
    "amqp.content_encoding": CONTENT_ENCODING,
    "amqp.absolute_expiry_time": ABSOLUTE_EXPIRY_TIME,
    "amqp.group_id": GROUP_ID,
    "amqp.group_sequence": GROUP_SEQUENCE,
    "amqp.reply_to_group_id": REPLY_TO_GROUP_ID,
}
"""Fields by their names in selectors."""
EXCLUDED: Final = frozenset(
    ("JMSDestination", "JMSReplyTo", "JMSExpiration", "JMSRedelivered", "JMSDeliveryTime", "JMSXDeliveryCount")
)
"""Header fields that no selector may name (JMS 2.0, section 3.8.1.1), and fields that change with each delivery."""
LIKE_WORK_MAX: Final = 2_500
"""Units of work that the patterns of LIKE may take for one message: a share of a turn."""


class PatternsTooCostly(ResourceError):
    """Patterns of LIKE whose work for a message exceeds the limit."""


class Field:
    """One name in a selector."""

    __slots__ = ("name", "code", "key")

    def __init__(self, name: str) -> None:
        self.name = name
        self.code: i64 = FIELDS.get(name, PROPERTY)
        """A code from the list above."""
        self.key: bytes = name.encode(errors="replace")
        """The name in UTF-8, for searches in place."""


@mypyc_attr(allow_interpreted_subclasses=True)
class SelectableMessage:
    """The fields of one message; each message format has a class of its own."""

    work_left: i64 = LIKE_WORK_MAX
    """Units of work that patterns may still use for this message."""
    has_groups: bool = False
    """True if the protocol of the message has a property for groups; a neutral message has its application there."""

    def spend(self, units: i64) -> None:
        """Count work of a pattern before it is done. Raises PatternsTooCostly if not enough is left."""
        if units > self.work_left:
            self.work_left = 0
            raise PatternsTooCostly("its selector would compare more text with patterns of LIKE than it may")
        self.work_left -= units

    def lookup(self, field: Field) -> object:
        """Return the value of a field: str, bool, int or float; None for a missing field.

        Another object is a value of a type that selectors do not know: it is equal to nothing, and not null.
        """
        raise NotImplementedError


def id_text(text: str, kind: str, is_message_id: bool) -> str:
    """Return a message-id or correlation-id as its text in Jakarta Messaging, as Qpid JMS forms it.

    `kind` is the prefix of its AMQP type (`AMQP_UUID:`, `AMQP_ULONG:`, `AMQP_BINARY:`), or empty for a string.
    """
    if kind:
        return f"ID:{kind}{text}"
    if not is_message_id:
        return text
    if text.startswith("ID:"):
        return text
    return f"ID:AMQP_NO_PREFIX:{text}"


class NeutralMessage(SelectableMessage):
    """A message with neutral properties."""

    def __init__(self, properties: Properties) -> None:
        self.properties = properties

    @override
    def lookup(self, field: Field) -> object:
        properties = self.properties
        code = field.code
        if code == PROPERTY:
            if properties.headers is None or field.name.startswith("x-"):
                return None
            return _plain(properties.headers.get(field.name))
        if code == PRIORITY:
            return DEFAULT_PRIORITY if properties.priority is None else properties.priority
        if code == DELIVERY_MODE:
            return PERSISTENT if properties.delivery_mode == 2 else NON_PERSISTENT
        if code == JMS_MESSAGE_ID:
            return None if properties.message_id is None else id_text(properties.message_id, "", True)
        if code == MESSAGE_ID:
            return properties.message_id
        if code == JMS_CORRELATION_ID or code == CORRELATION_ID:
            return properties.correlation_id
        if code == CREATION_TIME:
            return None if properties.timestamp is None else properties.timestamp * 1000
        if code == REPLY_TO:
            return properties.reply_to
        if code == USER_ID:
            return properties.user_id
        if code == CONTENT_TYPE:
            return properties.content_type
        if code == CONTENT_ENCODING:
            return properties.content_encoding
        return properties.app_id if code == GROUP_ID else None


def _plain(value: object) -> object:
    """Return the value of a header; a time in milliseconds since the epoch."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    return value
