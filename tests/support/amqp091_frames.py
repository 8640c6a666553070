"""Frames of AMQP 0-9-1, one by one: the parts of a message, and what can be said of frames that came."""

from __future__ import annotations

from penstock.content.properties import Properties
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import Method, decode_method, frame
from penstock.wire.amqp091.content_header import encode_header
from tests.support.driven_connection import Frame, cut, methods


def header(size: int, channel: int = 1, properties: Properties | None = None) -> bytes:
    """Return the frame that announces a body of so many octets."""
    return frame(spec.FRAME_HEADER, channel, encode_header(size, properties or Properties()))


def body(payload: bytes, channel: int = 1) -> bytes:
    return frame(spec.FRAME_BODY, channel, payload)


def body_of(frames: list[Frame]) -> bytes:
    """Return the octets of all bodies."""
    return b"".join(payload for kind, _, payload in frames if kind == spec.FRAME_BODY)


def names(frames: list[Frame]) -> list[str]:
    """Return the names of the methods."""
    return [method.name for method in methods(frames)]


def last_method(octets: bytes) -> Method:
    """Return the last method of an output."""
    return decode_method(cut(octets)[-1][2])


def closes(frames: list[Frame]) -> list[Method]:
    """Return the closes of channels and of the connection."""
    return [method for method in methods(frames) if method.name.endswith(".close")]


def close_reasons(frames: list[Frame]) -> list[tuple[int, str]]:
    """Return code and text of each close."""
    return [(int(str(each.args["reply_code"])), str(each.args["reply_text"])) for each in closes(frames)]
