"""The standard protocols fit together: their first octets, and the formats of their messages."""

from __future__ import annotations

from penstock.core.message_format import MessageFormats
from penstock.protocols import standard_protocols


def test_protocols_have_formats_of_their_own_and_the_first_is_the_default() -> None:
    formats = MessageFormats()
    for protocol in standard_protocols():
        formats.add(protocol.message_format())
    assert formats.default.name == "AMQP 0-9-1"
    assert formats.by_octet(2) is formats.default


def test_protocols_accept_their_own_header_and_its_beginnings_and_nothing_else() -> None:
    for protocol in standard_protocols():
        header = protocol.header()
        assert all(protocol.accepts(header[:octets]) for octets in range(9))
        assert not protocol.accepts(b"GET / HT")
