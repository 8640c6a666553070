"""Checks of user_id and of a direct reply_to in published messages.

They run only if the flags of the content header announce the property.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.vhost import REPLY_TO
from penstock.errors import PreconditionFailed
from penstock.wire.amqp091.content_header import REPLY_TO as REPLY_TO_INDEX
from penstock.wire.amqp091.content_header import USER_ID, property_at
from penstock.wire.amqp091.field_writer import encode_shortstr

if TYPE_CHECKING:
    from penstock.protocols.amqp091.channel import Channel

CLAIMS: Final = 0x0210
"""Flags of reply_to and user_id in the property flags (AMQP 0-9-1 section 4.2.6.1)."""


def check_user_id_and_reply_to(channel: Channel, content: bytes) -> bytes:
    """Return the checked content, with a direct reply_to replaced by its address; the header is well formed.

    Raises PreconditionFailed (406) for a user_id that is not the connection's user, and for a direct reply_to if the
    channel does not consume replies.
    """
    position = property_at(content, USER_ID)
    if position:
        user = content[position + 1 : position + 1 + content[position]].decode(errors="replace")
        if user != channel.connection.user:
            raise PreconditionFailed(
                f"user_id property set to '{user}' but authenticated user was '{channel.connection.user}'"
            )
    position = property_at(content, REPLY_TO_INDEX)
    wanted = encode_shortstr(REPLY_TO)
    if not position or content[position : position + len(wanted)] != wanted:
        return content
    address = channel.replies_to()
    if not address:
        raise PreconditionFailed("fast reply consumer does not exist")
    own = encode_shortstr(address)
    size = int.from_bytes(content[3:7], "big") + len(own) - len(wanted)
    return content[:3] + size.to_bytes(4, "big") + content[7:position] + own + content[position + len(wanted) :]
