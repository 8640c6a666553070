"""Malformed octets as an error of the broker."""

from __future__ import annotations

from penstock.protocols.amqp091.malformed import Malformed
from penstock.wire.amqp091.codec import CodecError
from penstock.wire.amqp091.spec import ReplyCode


def test_malformed_octets_close_the_connection_with_the_code_and_reason_of_the_codec() -> None:
    error = Malformed(CodecError("a table is cut short", ReplyCode.SYNTAX_ERROR))
    assert (error.code, error.closes, error.reply_text) == (502, "connection", "SYNTAX_ERROR - a table is cut short")
