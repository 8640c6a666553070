"""Channel between a broker and its worker of bridges: lines of JSON over a socket pair, some with a descriptor.

Neither end blocks. A message that the socket does not take whole is kept, and no other is taken before it is sent, so
a peer that does not read costs one message. A line that is too long, or is no object, ends the channel.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
from collections import deque
from typing import Any, Final

Row = dict[str, Any]
LINE_MOST: Final = 1024 * 1024
"""Most bytes of a line: a spec has the value of a parameter, of 24 KiB at most."""
READ_BYTES: Final = 64 * 1024
READS_AT_ONCE: Final = 16
"""Reads of the socket per call, so that a peer that writes without end leaves time for others."""
DESCRIPTORS_MOST: Final = 64
"""Most descriptors of one read."""
INT_BYTES: Final = array.array("i").itemsize


class ChannelEnded(Exception):
    """The peer has ended, or has sent something that is no message."""


class BridgeChannel:
    """One end of the channel."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._unsent = b""
        """Rest of a message that the socket has not taken."""
        self._unread = bytearray()
        """Beginning of a line."""
        self._descriptors: deque[int] = deque()
        """Descriptors that have arrived and belong to no message yet."""

    def fileno(self) -> int:
        """Return the descriptor of the socket."""
        return self._socket.fileno()

    @property
    def is_full(self) -> bool:
        """True while a message is not sent whole."""
        return bool(self._unsent)

    def send(self, message: Row, descriptor: int | None = None) -> bool:
        """Send a message; return False, and send nothing, while the last one is not sent whole.

        The descriptor is the peer's from then on; the caller closes its own. Raises `ChannelEnded`.
        """
        if not self.flush():
            return False
        data = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode(errors="replace") + b"\n"
        rights = [] if descriptor is None else [array.array("i", [descriptor])]
        try:
            sent = self._socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, each) for each in rights])
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise ChannelEnded(str(error)) from None
        self._unsent = data[sent:]
        return True

    def flush(self) -> bool:
        """Send the rest of the last message; return whether it is sent. Raises `ChannelEnded`."""
        if self._unsent:
            try:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            except (BlockingIOError, InterruptedError):
                pass
            except OSError as error:
                raise ChannelEnded(str(error)) from None
        return not self._unsent

    def receive(self) -> list[Row]:
        """Return the messages that have arrived. Raises `ChannelEnded`."""
        found: list[Row] = []
        for _ in range(READS_AT_ONCE):
            try:
                data, ancillary, _, _ = self._socket.recvmsg(
                    READ_BYTES, socket.CMSG_SPACE(DESCRIPTORS_MOST * INT_BYTES)
                )
            except (BlockingIOError, InterruptedError):
                break
            except OSError as error:
                raise ChannelEnded(str(error)) from None
            self._keep(ancillary)
            if not data:
                raise ChannelEnded("the peer has ended")
            self._unread += data
            found += self._messages()
        return found

    def take_descriptor(self) -> int | None:
        """Return the descriptor of a message that has one; None if it has not arrived."""
        return self._descriptors.popleft() if self._descriptors else None

    def close(self) -> None:
        """Close the socket and all descriptors that nobody has taken."""
        for descriptor in self._descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self._descriptors.clear()
        self._socket.close()

    def _keep(self, ancillary: list[tuple[int, int, bytes]]) -> None:
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                passed = array.array("i")
                passed.frombytes(data[: len(data) - len(data) % INT_BYTES])
                for descriptor in passed:
                    os.set_inheritable(descriptor, False)
                    self._descriptors.append(descriptor)

    def _messages(self) -> list[Row]:
        *lines, rest = self._unread.split(b"\n")
        if len(rest) > LINE_MOST:
            raise ChannelEnded(f"a message has more than {LINE_MOST:,} bytes")
        self._unread = rest
        return [_read(line) for line in lines]


def _read(line: bytes | bytearray) -> Row:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ChannelEnded("a line is no object of JSON")
    return message
