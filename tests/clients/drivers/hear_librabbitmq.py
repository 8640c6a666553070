"""librabbitmq publishes without confirms, and looks for frames between, until it hears of a block.

It announces no capability by itself: `amqp_login_with_properties` says what a program in C would say. The reason is
printed. Usage: python -m tests.clients.drivers.hear_librabbitmq URL QUEUE
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from typing import ClassVar
from urllib.parse import urlsplit

LIBRARY = "librabbitmq.so.4"
BLOCKED = 0x000A003C
OPEN_CHANNEL = 1
NOTHING_YET = -13
"""AMQP_STATUS_TIMEOUT."""
KIND_TABLE, KIND_BOOLEAN = ord("F"), ord("t")
SASL_PLAIN = 0
NORMAL = 1
"""AMQP_RESPONSE_NORMAL."""


class Bytes(ctypes.Structure):
    """amqp_bytes_t."""

    _fields_: ClassVar = [("len", c_size_t), ("bytes", c_char_p)]

    @classmethod
    def of(cls, text: bytes) -> Bytes:
        return cls(len(text), text)


class Table(ctypes.Structure):
    """amqp_table_t."""

    _fields_: ClassVar = [("num_entries", c_int), ("entries", c_void_p)]


class Amount(ctypes.Union):
    """The union in amqp_field_value_t: its largest members."""

    _fields_: ClassVar = [("boolean", c_int), ("table", Table), ("bytes", Bytes), ("whole", c_uint64)]


class Value(ctypes.Structure):
    """amqp_field_value_t."""

    _fields_: ClassVar = [("kind", c_uint8), ("value", Amount)]


class Entry(ctypes.Structure):
    """amqp_table_entry_t."""

    _fields_: ClassVar = [("key", Bytes), ("value", Value)]


class Method(ctypes.Structure):
    """amqp_method_t."""

    _fields_: ClassVar = [("id", c_uint32), ("decoded", POINTER(Bytes))]


class Frame(ctypes.Structure):
    """amqp_frame_t, of which only methods are looked at."""

    _fields_: ClassVar = [("frame_type", c_uint8), ("channel", c_uint16), ("method", Method), ("rest", c_uint64 * 8)]


class Reply(ctypes.Structure):
    """amqp_rpc_reply_t."""

    _fields_: ClassVar = [("reply_type", c_int), ("reply", Method), ("library_error", c_int)]


class Moment(ctypes.Structure):
    """struct timeval."""

    _fields_: ClassVar = [("seconds", ctypes.c_long), ("microseconds", ctypes.c_long)]


def table(entry: Entry) -> Table:
    return Table(1, ctypes.cast(ctypes.pointer(entry), c_void_p))


def connected(library: ctypes.CDLL, url: str) -> c_void_p:
    """Return a connection with a channel, which has announced connection.blocked."""
    parts = urlsplit(url)
    library.amqp_new_connection.restype = library.amqp_tcp_socket_new.restype = c_void_p
    state = c_void_p(library.amqp_new_connection())
    socket = c_void_p(library.amqp_tcp_socket_new(state))
    assert library.amqp_socket_open(socket, str(parts.hostname).encode(), c_int(parts.port or 5672)) == 0
    blocked = Entry(Bytes.of(b"connection.blocked"), Value(KIND_BOOLEAN, Amount(boolean=1)))
    capabilities = Entry(Bytes.of(b"capabilities"), Value(KIND_TABLE, Amount(table=table(blocked))))
    library.amqp_login_with_properties.restype = Reply
    sizes = c_int(0), c_int(131072), c_int(0)
    login = c_int(SASL_PLAIN), b"guest", b"guest"
    reply = library.amqp_login_with_properties(state, b"/", *sizes, byref(table(capabilities)), *login)
    assert reply.reply_type == NORMAL, f"amqp_login_with_properties returned {reply.reply_type}"
    library.amqp_channel_open.restype = c_void_p
    assert library.amqp_channel_open(state, c_uint16(OPEN_CHANNEL)) is not None
    return state


def main() -> None:
    url, queue = sys.argv[1:]
    library = ctypes.CDLL(LIBRARY)
    state, frame, none = connected(library, url), Frame(), Bytes(0, None)
    while True:
        body = Bytes.of(bytes(50_000))
        done = library.amqp_basic_publish(
            state, c_uint16(OPEN_CHANNEL), none, Bytes.of(queue.encode()), c_int(0), c_int(0), c_void_p(), body
        )
        assert done == 0, f"amqp_basic_publish returned {done}"
        found = library.amqp_simple_wait_frame_noblock(state, byref(frame), byref(Moment(0, 1000)))
        if found == NOTHING_YET:
            continue
        assert found == 0, f"amqp_simple_wait_frame_noblock returned {found}"
        assert frame.method.id == BLOCKED, f"method {frame.method.id:#x} came"
        reason = frame.method.decoded.contents
        print(ctypes.string_at(reason.bytes, reason.len).decode())
        return


if __name__ == "__main__":
    main()
