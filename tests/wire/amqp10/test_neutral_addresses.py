"""Addresses of queues and exchanges, and the neutral reply-to."""

from __future__ import annotations

import pytest

from penstock.wire.amqp10.neutral_addresses import (
    exchange_address,
    percent_decoded,
    queue_address,
    reply_queue,
    to_reply_address,
)


def test_names_in_addresses_are_percent_encoded() -> None:
    assert queue_address("a/b ü") == "/queues/a%2Fb%20%C3%BC"
    assert exchange_address("x/y") == "/exchanges/x%2Fy"
    assert exchange_address("x", "a.#") == "/exchanges/x/a.%23"
    assert exchange_address("x", "") == "/exchanges/x/"


@pytest.mark.parametrize(
    ("reply_to", "neutral", "back"),
    [
        ("/queues/a%2Fb", "a/b", "/queues/a%2Fb"),
        ("/queues/%2Fslash", "/slash", "/queues/%2Fslash"),
        ("replies", "replies", "/queues/replies"),
        ("/queues/%ff", "/queues/%ff", "/queues/%ff"),
        ("/exchanges/x/k", "/exchanges/x/k", "/exchanges/x/k"),
        ("/exchanges/x", "/exchanges/x", "/exchanges/x"),
    ],
)
def test_reply_to_of_a_queue_crosses_by_its_name(reply_to: str, neutral: str, back: str) -> None:
    assert reply_queue(reply_to) == neutral
    assert to_reply_address(neutral) == back


@pytest.mark.parametrize("address", ["/queues/", "/queues/a/b", "/queues/%ff", "/queues/%zz", "/queues/" + 256 * "a"])
def test_reply_to_that_names_no_queue_stays(address: str) -> None:
    assert reply_queue(address) == address


def test_invalid_percent_encoding_is_refused() -> None:
    assert percent_decoded("a%20%C3%BC") == "a ü"
    for part, said in (("a%2", "two hexadecimal digits"), ("%ff", "bytes that are not UTF-8")):
        with pytest.raises(ValueError, match=said):
            percent_decoded(part)
