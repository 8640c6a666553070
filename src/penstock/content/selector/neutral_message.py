"""The fields of a message by its neutral properties, for contents of protocols other than AMQP 1.0.

A selector finds what a receiver of AMQP 1.0 would see: headers are its properties, but for those that begin with `x-`.
"""

from __future__ import annotations

from datetime import UTC, datetime

from typing_extensions import override

from penstock.content.properties import Properties
from penstock.content.selector import fields
from penstock.content.selector.fields import Field, SelectableMessage, id_text


class NeutralMessage(SelectableMessage):
    """A message with neutral properties."""

    def __init__(self, properties: Properties) -> None:
        self.properties = properties

    @override
    def lookup(self, field: Field) -> object:
        found = self.properties
        code = field.code
        if code == fields.PROPERTY:
            if found.headers is None or field.name.startswith("x-"):
                return None
            return _plain(found.headers.get(field.name))
        if code == fields.PRIORITY:
            return fields.DEFAULT_PRIORITY if found.priority is None else found.priority
        if code == fields.DELIVERY_MODE:
            return fields.PERSISTENT if found.delivery_mode == 2 else fields.NON_PERSISTENT
        if code == fields.JMS_MESSAGE_ID:
            return None if found.message_id is None else id_text(found.message_id, "", True)
        if code == fields.MESSAGE_ID:
            return found.message_id
        if code == fields.JMS_CORRELATION_ID or code == fields.CORRELATION_ID:
            return found.correlation_id
        if code == fields.CREATION_TIME:
            return None if found.timestamp is None else found.timestamp * 1000
        if code == fields.REPLY_TO:
            return found.reply_to
        if code == fields.USER_ID:
            return found.user_id
        if code == fields.CONTENT_TYPE:
            return found.content_type
        if code == fields.CONTENT_ENCODING:
            return found.content_encoding
        return found.app_id if code == fields.GROUP_ID else None


def _plain(value: object) -> object:
    """Return the value of a header; a time in milliseconds since the epoch."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    return value
