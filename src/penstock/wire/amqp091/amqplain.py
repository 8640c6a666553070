"""The SASL mechanism AMQPLAIN, which only AMQP 0-9-1 has: a field table (RabbitMQ)."""

from __future__ import annotations

from penstock.wire.amqp091.codec import CodecError, decode_table
from penstock.wire.sasl import SaslError


def parse_amqplain(response: bytes) -> tuple[str, str]:
    """User and password of an AMQPLAIN response, a field table without its size; raises `SaslError`."""
    try:
        table, _ = decode_table(len(response).to_bytes(4, "big") + response, 0)
    except CodecError as error:
        raise SaslError(f"an AMQPLAIN response is no field table: {error.reason}") from None
    except OverflowError:
        raise SaslError("an AMQPLAIN response is too long") from None
    user = table.get("LOGIN")
    password = table.get("PASSWORD")
    if not isinstance(user, str) or not user or not isinstance(password, str):
        raise SaslError("an AMQPLAIN response needs LOGIN and PASSWORD, both text")
    return user, password
