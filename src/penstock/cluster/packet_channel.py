"""Channel between processes of one node: objects of JSON, a packet each, some with sockets.

Neither end blocks. A packet arrives whole or not at all. A packet that the socket does not accept is not sent, and the
sender tries again later: a peer that does not read costs its sender nothing but the kernel's buffer.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import socket
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from penstock.errors import StartError

Row = dict[str, Any]
PACKET_MOST: Final = 64 * 1024
"""Most bytes of a packet."""
SOCKETS_MOST: Final = 8
"""Most sockets of a packet."""
PACKETS_AT_ONCE: Final = 50
"""Packets that one call reads, so that a peer that writes without end leaves time for others."""
INT_BYTES: Final = array.array("i").itemsize


class ChannelEnded(Exception):
    """The peer has ended, or has sent a packet that is no object of JSON."""


class Packet(NamedTuple):
    """One message, with the sockets that came with it. They belong to the receiver, which closes them."""

    message: Row
    sockets: list[socket.socket]


class PacketChannel:
    """One end of a channel."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock

    @classmethod
    def pair(cls) -> tuple[PacketChannel, socket.socket]:
        """Return one end of a new channel, and the socket of the other end. Raises StartError."""
        try:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except (OSError, AttributeError):
            raise StartError("shards need packets over Unix sockets, which this system does not have") from None
        return cls(ours), theirs

    def fileno(self) -> int:
        """Return the descriptor of the socket; -1 once it is closed."""
        return self._socket.fileno()

    def send(self, message: Row, sockets: Sequence[socket.socket] = ()) -> bool:
        """Send a message; return False if the socket does not accept it now.

        The peer gets copies of the sockets: the caller closes its own. Raises ChannelEnded; ValueError for a message
        above the bounds.
        """
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > PACKET_MOST or len(sockets) > SOCKETS_MOST:
            raise ValueError(f"a packet of {len(data):,} bytes and {len(sockets)} sockets is above the bounds")
        rights = array.array("i", [each.fileno() for each in sockets])
        try:
            self._socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if rights else [])
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            raise ChannelEnded(error.strerror or str(error)) from None
        return True

    def receive(self) -> list[Packet]:
        """Return the packets that have arrived, some at most. Raises ChannelEnded once none are left."""
        found: list[Packet] = []
        for _ in range(PACKETS_AT_ONCE):
            try:
                packet = self._next()
            except ChannelEnded:
                if not found:
                    raise
                break  # The next call raises again.
            if packet is None:
                break
            found.append(packet)
        return found

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def _next(self) -> Packet | None:
        space = socket.CMSG_SPACE(SOCKETS_MOST * INT_BYTES)
        try:
            data, ancillary, flags, _ = self._socket.recvmsg(PACKET_MOST, space)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise ChannelEnded(error.strerror or str(error)) from None
        sockets = [socket.socket(fileno=number) for number in _descriptors(ancillary)]
        try:
            if not data:
                raise ChannelEnded("the peer has ended")
            if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                raise ChannelEnded("a packet is above the bounds")
            return Packet(_read(data), sockets)
        except ChannelEnded:
            for each in sockets:
                each.close()
            raise


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> list[int]:
    """Return the descriptors that came with a packet; programs that this process starts do not inherit them."""
    found = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % INT_BYTES])
    for number in found:
        with contextlib.suppress(OSError):
            os.set_inheritable(number, False)
    return list(found)


def _read(data: bytes) -> Row:
    try:
        message = json.loads(data)
    except (ValueError, RecursionError):
        message = None
    if not isinstance(message, dict):
        raise ChannelEnded("a packet is no object of JSON")
    return message
