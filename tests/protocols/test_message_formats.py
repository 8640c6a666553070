"""The formats of all protocols fit together."""

from __future__ import annotations

from penstock.core.message_format import MessageFormats
from penstock.protocols.message_formats import add_message_formats


def test_frames_are_the_default_and_every_format_is_found_by_its_octets() -> None:
    formats = MessageFormats()
    add_message_formats(formats)
    assert formats.default.name == "AMQP 0-9-1"
    assert formats.by_octet(2) is formats.default
