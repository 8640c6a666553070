"""Addresses of listeners: as text, of the HTTP API, and in URLs."""

from __future__ import annotations

import pytest

from penstock.errors import StartError
from penstock.server.addresses import http_address, parse_address, shown, url_of
from penstock.settings.config import Settings


@pytest.mark.parametrize(
    ("wanted", "listen", "served"),
    [
        ("auto", ["127.0.0.1:5672"], ("127.0.0.1", 15672, True)),
        ("auto", ["0.0.0.0:5672", "[::1]:5673"], ("127.0.0.1", 15672, True)),
        ("auto", ["127.0.0.1:0"], None),
        ("auto", ["127.0.0.1:5672", "127.0.0.1:0"], None),
        ("auto", [], None),
        ("auto", ["unix:/run/amqp.sock"], None),
        ("auto", ["unix:/run/amqp.sock", "127.0.0.1:5672"], ("127.0.0.1", 15672, True)),
        ("unix:/run/http.sock", ["127.0.0.1:5672"], ("unix:/run/http.sock", 0, False)),
        ("127.0.0.1:0", ["127.0.0.1:0"], ("127.0.0.1", 0, False)),
        ("off", ["127.0.0.1:5672"], None),
        (None, ["127.0.0.1:5672"], None),
    ],
)
def test_console_has_its_port_unless_the_broker_listens_at_a_free_one(
    wanted: str | None, listen: list[str], served: tuple[str, int, bool] | None
) -> None:
    assert http_address(wanted, [parse_address(each) for each in listen], Settings()) == served


def test_console_with_tls_needs_none_without() -> None:
    assert http_address("auto", [("127.0.0.1", 5672)], Settings(http_tls="127.0.0.1:15671")) is None


@pytest.mark.parametrize("text", ["127.0.0.1", ":5672", "host:", "host:port", "host:65536"])
def test_address_without_host_or_port_names_the_option(text: str) -> None:
    with pytest.raises(StartError, match=f"^--http {text} is not HOST:PORT"):
        parse_address(text, "--http")


@pytest.mark.parametrize(
    ("plain", "tls", "url"),
    [
        ([("0.0.0.0", 5672)], [("127.0.0.1", 5671)], "amqp://127.0.0.1:5672"),
        ([], [("::", 5671)], "amqps://[::1]:5671"),
        ([("::1", 5672)], [], "amqp://[::1]:5672"),
    ],
)
def test_url_is_that_of_the_first_listener_without_tls(
    plain: list[tuple[str, int]], tls: list[tuple[str, int]], url: str
) -> None:
    assert url_of("amqp", plain, tls, "none") == url


def test_url_without_listeners_says_why() -> None:
    with pytest.raises(StartError, match="it was not started"):
        url_of("amqp", [], [], "it was not started")


@pytest.mark.parametrize("text", ["unix:", "unix:amqp.sock", "unix:/" + "long" * 27])
def test_unix_address_without_an_absolute_path_or_too_long_names_the_rule(text: str) -> None:
    with pytest.raises(StartError, match=r"^--listen unix:.* is not unix: with an absolute path of at most 107 bytes"):
        parse_address(text)


def test_url_of_a_unix_socket_has_the_encoded_path() -> None:
    address = parse_address("unix:/run/amqp.sock")
    assert url_of("amqp", [address], [], "") == "amqp://%2Frun%2Famqp.sock"
    assert shown(*address) == "unix:/run/amqp.sock"
    assert shown("::1", 5672) == "[::1]:5672"
