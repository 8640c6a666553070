"""URLs of brokers."""

from __future__ import annotations

import pytest

from penstock.client import Parameters


@pytest.mark.parametrize(
    ("url", "parameters"),
    [
        ("amqp://", Parameters()),
        ("amqp://h", Parameters(host="h")),
        ("amqp://127.0.0.1:5673", Parameters(port=5673)),
        ("amqp://127.0.0.1:5673/", Parameters(port=5673)),
        ("amqp://u:p@h:1/v", Parameters("h", 1, "u", "p", "v")),
        ("amqp://u%40x:p%2Fq%3A@h/%2Fv%2Fw", Parameters("h", 5672, "u@x", "p/q:", "/v/w")),
        ("amqp://u@h", Parameters("h", user="u")),
        ("amqp://u:@h", Parameters("h", user="u", password="")),
        ("amqp://[::1]:5673/%2F", Parameters("::1", 5673)),
    ],
)
def test_url_says_where_the_broker_is_and_who_asks(url: str, parameters: Parameters) -> None:
    assert Parameters.from_url(url) == parameters


@pytest.mark.parametrize("url", ["", "127.0.0.1:5672", "http://h", "amqps://h?x=1", "amqp://h:port", "amqp://h:99999"])
def test_what_is_no_amqp_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"amqps?://|port"):
        Parameters.from_url(url)


def test_password_does_not_show() -> None:
    assert "secret" not in repr(Parameters(password="secret"))
