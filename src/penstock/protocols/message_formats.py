"""The message formats of all protocols."""

from __future__ import annotations

from penstock.core.message_format import MessageFormats
from penstock.protocols.amqp091.message_format import Amqp091Format


def add_message_formats(formats: MessageFormats) -> None:
    """Add the format of each protocol; messages of the broker itself are in the first one."""
    formats.add(Amqp091Format())
