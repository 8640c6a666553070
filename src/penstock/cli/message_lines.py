"""Messages as JSON lines: those that `queues consume --json` and `messages browse --json` print, read to publish them.

A file of any size is read a piece at a time. A line that is no message ends the reading after the messages before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BufferedReader
from typing import Final

from penstock.client.engine.headers import check_properties
from penstock.client.engine.messages import Message
from penstock.client.errors import InvalidValue
from penstock.content.message_rows import read_message

READ_BYTES: Final = 256 * 1024
"""Bytes read from a file at once, and bytes of lines that are published together."""
LINE_MOST: Final = 1 << 30
"""Most bytes of a line: a message of 512 MiB in base64, with its properties."""


class InvalidLine(Exception):
    """Line that is no message."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number:,} cannot be published: {reason}")


class MessageLines:
    """Reader of the messages of a file."""

    def __init__(self, source: BufferedReader, persistent: bool, to_origin: bool, by_links: bool) -> None:
        self._source = source
        self._persistent = persistent
        self._to_origin = to_origin
        """True to publish each message to the exchange and routing key of its line."""
        self._by_links = by_links
        """True to publish over AMQP 1.0, which carries fewer headers."""

    def batches(self) -> Iterator[list[Message]]:
        """Yield the messages in batches as they arrive.

        Raises InvalidLine for a line that is no message, after the batch of the lines before it.
        """
        number = 0
        for lines in self._lines():
            messages: list[Message] = []
            for line in lines:
                number += 1
                if not line.strip():
                    continue
                try:
                    messages.append(self._message(number, line))
                except InvalidLine:
                    yield messages
                    raise
            yield messages

    def _lines(self) -> Iterator[list[bytes]]:
        """Yield the lines of each piece that was read; a line without an end is the last one."""
        parts: list[bytes] = []
        size, number = 0, 1
        while piece := self._source.read1(READ_BYTES):
            head, *lines = piece.split(b"\n")
            parts.append(head)
            size += len(head)
            if size > LINE_MOST:
                raise InvalidLine(number, f"the line has more than {LINE_MOST:,} bytes")
            if lines:
                last = lines.pop()
                number += 1 + len(lines)
                yield [b"".join(parts), *lines]
                parts, size = [last], len(last)
        if size:
            yield [b"".join(parts)]

    def _message(self, number: int, line: bytes) -> Message:
        try:
            found = read_message(line)
            properties = found.properties
            if self._persistent and properties.delivery_mode is None:
                properties.delivery_mode = 2
            check_properties(properties, self._by_links)
        except (ValueError, InvalidValue) as error:
            raise InvalidLine(number, str(error)) from None
        message = Message(found.body, properties=properties)
        if self._to_origin and (found.exchange or found.routing_key):
            message.exchange, message.routing_key = found.exchange, found.routing_key
        return message
