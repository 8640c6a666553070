"""Patterns with the virtual host that they count in."""

from __future__ import annotations

import pytest

from penstock.errors import PreconditionFailed
from penstock.settings.placed import in_vhost, place, placed
from penstock.settings.read import read_pattern

WRITTEN = [
    ("queue", "orders.#", None, "orders.#"),
    ("queue", "shop/orders.#", "shop", "orders.#"),
    ("queue", "%2F/orders", "/", "orders"),
    ("queue", "a%2Fb/c/d", "a/b", "c/d"),
    ("queue", "*/a/b", None, "a/b"),
    ("queue", "%2A/a", "*", "a"),
    ("address", "logs", None, "logs"),
    ("address", "logs/eu.#", None, "logs/eu.#"),
    ("address", "shop//logs", "shop", "logs"),
    ("address", "shop//logs/eu.#", "shop", "logs/eu.#"),
    ("address", "*//logs//eu", None, "logs//eu"),
    ("user", "a/b", None, "a/b"),
    ("vhost", "/", None, "/"),
]


@pytest.mark.parametrize(("scope", "text", "vhost", "pattern"), WRITTEN)
def test_pattern_is_read_with_its_virtual_host(scope: str, text: str, vhost: str | None, pattern: str) -> None:
    assert placed(scope, text) == (vhost, pattern)
    assert place(scope, vhost, pattern) == text
    assert read_pattern(scope, text) == text


def test_pattern_with_a_needless_prefix_is_stored_without_prefix() -> None:
    assert read_pattern("queue", "*/orders") == "orders"
    assert read_pattern("address", "*//logs/eu") == "logs/eu"


@pytest.mark.parametrize(("scope", "text"), [("queue", "/orders"), ("address", "//logs")])
def test_pattern_that_begins_with_a_slash_is_refused(scope: str, text: str) -> None:
    with pytest.raises(PreconditionFailed, match="begins with a slash: name its virtual host, %2F for /, or "):
        read_pattern(scope, text)


@pytest.mark.parametrize("text", ["shop/", "*/"])
def test_virtual_host_without_a_pattern_is_refused(text: str) -> None:
    with pytest.raises(PreconditionFailed, match="scope queue needs a pattern of names"):
        read_pattern("queue", text)


def test_name_of_a_queue_has_its_virtual_host_as_in_a_url() -> None:
    assert [in_vhost(vhost, "orders") for vhost in ("shop", "/", "a/b")] == [
        "shop/orders", "%2F/orders", "a%2Fb/orders"
    ]  # fmt: skip
