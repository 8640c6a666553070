"""user_id and a direct reply_to, wherever they are in the property list."""

from __future__ import annotations

import pytest

from penstock.content.properties import Properties
from penstock.core.vhost import REPLY_TO
from penstock.errors import PreconditionFailed
from penstock.protocols.amqp091.content_frames import body_of, make_content, properties_of
from penstock.protocols.amqp091.property_checks import check_user_id_and_reply_to
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, make_driver


def around(**more: str) -> Properties:
    """Return properties before and after the ones that are checked."""
    return Properties("text", None, {"a": 1}, 2, 5, "c", message_id="m", timestamp=7, type="t", app_id="app", **more)


def test_content_without_them_or_with_the_own_user_stays() -> None:
    channel = Dialogue(make_driver()).connection.engine.channels[1]
    for made in (Properties(), around(), around(user_id="guest"), around(reply_to="queue", user_id="guest")):
        content = make_content(made, b"body")
        assert check_user_id_and_reply_to(channel, content) is content


def test_another_user_is_refused() -> None:
    channel = Dialogue(make_driver()).connection.engine.channels[1]
    with pytest.raises(PreconditionFailed, match="user_id property set to 'root' but authenticated user was 'guest'"):
        check_user_id_and_reply_to(channel, make_content(around(user_id="root"), b""))


def test_direct_reply_to_becomes_the_address_and_nothing_else_changes() -> None:
    dialogue = Dialogue(make_driver())
    channel = dialogue.connection.engine.channels[1]
    content = make_content(around(reply_to=REPLY_TO), b"body")
    with pytest.raises(PreconditionFailed, match="fast reply consumer does not exist"):
        check_user_id_and_reply_to(channel, content)
    dialogue.say(method_frame(1, spec.BASIC_CONSUME, queue=REPLY_TO, no_ack=True))
    checked = check_user_id_and_reply_to(channel, content)
    assert properties_of(checked) == around(reply_to=channel.replies_to())
    assert body_of(checked) == b"body"
