"""Arguments of decoded methods by type."""

from __future__ import annotations

import pytest

from penstock.errors import PreconditionFailed
from penstock.protocols.amqp091 import method_arguments as arguments


def test_method_arguments_are_read_by_type() -> None:
    args: dict[str, object] = {"s": "text", "b": True, "n": 5, "t": {"a": 1}, "o": b"\x00"}
    assert arguments.text(args, "s") == "text"
    assert arguments.flag(args, "b")
    assert arguments.number(args, "n") == 5
    assert arguments.table(args, "t") == {"a": 1}
    assert arguments.octets(args, "o") == b"\x00"


def test_method_arguments_have_names_without_line_ends() -> None:
    assert arguments.name({"queue": "a\r\nb"}, "queue") == "ab"


def test_method_arguments_have_no_tag_above_the_largest_signed_tag() -> None:
    assert arguments.tag({"delivery_tag": arguments.TAG_MAX}) == arguments.TAG_MAX
    with pytest.raises(PreconditionFailed, match=f"unknown delivery tag {arguments.TAG_MAX + 1}"):
        arguments.tag({"delivery_tag": arguments.TAG_MAX + 1})
