"""The standard protocols fit together."""

from __future__ import annotations

from penstock.core.message_format import MessageFormats
from penstock.protocols import standard_protocols


def test_formats_have_first_bytes_of_their_own_and_frames_are_the_default() -> None:
    formats = MessageFormats()
    for protocol in standard_protocols():
        formats.add(protocol.message_format())
    assert formats.default.name == "AMQP 0-9-1"
    assert formats.by_octet(2) is formats.default
