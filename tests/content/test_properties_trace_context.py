"""Trace context of messages: what is valid (W3C Trace Context), and what is none."""

from __future__ import annotations

import pytest

from penstock.content.properties import STATE_MOST, read_context

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{PARENT}-01"


def test_trace_context_has_the_ids_the_flags_and_the_state() -> None:
    found = read_context(VALID, "congo=t61rcWkgMzE")
    assert (found.trace_id, found.parent_id, found.flags, found.state) == (TRACE, PARENT, 1, "congo=t61rcWkgMzE")
    assert found.is_sampled()


@pytest.mark.parametrize(("flags", "sampled"), [("00", False), ("01", True), ("02", False), ("03", True)])
def test_trace_context_is_sampled_by_its_flag(flags: str, sampled: bool) -> None:
    found = read_context(f"00-{TRACE}-{PARENT}-{flags}", None)
    assert found.is_sampled() is sampled


@pytest.mark.parametrize("value", [VALID.encode(), f"cc-{TRACE}-{PARENT}-01-what-the-future-brings"])
def test_trace_context_is_read_from_octets_and_of_later_versions(value: object) -> None:
    found = read_context(value, None)
    assert (found.trace_id, found.state) == (TRACE, "")


@pytest.mark.parametrize(
    "value",
    [
        None, 7, "", b"\xff" * 55, VALID[:-1], VALID + "-01", VALID.upper(), VALID.replace("-", "_"),
        f"ff-{TRACE}-{PARENT}-01", f"01-{TRACE}-{PARENT}-01x", f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01", f"00-{TRACE[:-1]}g-{PARENT}-01", f"00-{TRACE}-{PARENT}-0 ",
    ],
)  # fmt: skip
def test_trace_context_that_is_not_valid_is_none(value: object) -> None:
    assert read_context(value, "congo=1") is None


def test_trace_state_that_is_too_long_is_left_out() -> None:
    found = read_context(VALID, "a=" + "b" * STATE_MOST)
    assert found.state == ""
