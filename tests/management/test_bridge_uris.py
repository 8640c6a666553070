"""URIs of bridges: what they name, what is refused without a quotation, and their text without secrets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import PreconditionFailed
from penstock.management.bridge_uris import URI_MOST, hidden, hidden_uri, read_uri, read_uris

SECRET = "s3cret"


@pytest.mark.parametrize(
    ("uri", "text", "is_here", "vhost"),
    [
        ("amqp://", "amqp://", True, "/"),
        ("amqp:///", "amqp://", True, "/"),
        ("amqp:///%2F", "amqp://", True, "/"),
        ("amqp:///eu?queue=q", "amqp:///eu", True, "eu"),
        ("amqp://?queue=q", "amqp://", True, "/"),
        ("amqp://host", "amqp://host", False, "/"),
        (f"amqp://carl:{SECRET}@host:5672/a%2Fb?heartbeat=5", "amqp://host:5672/a%2Fb", False, "a/b"),
        (f"amqps://carl:{SECRET}@[::1]:5673", "amqps://[::1]:5673", False, "/"),
        (f"amqp://carl:a%40b%2F{SECRET}@host", "amqp://host", False, "/"),
        (f"amqp://carl:x:{SECRET}@host", "amqp://host", False, "/"),
    ],
)
def test_uri_has_its_broker_and_virtual_host(uri: str, text: str, is_here: bool, vhost: str) -> None:
    found = read_uri("it", uri)
    assert (found.text, found.is_here, found.vhost) == (text, is_here, vhost)
    assert hidden_uri(uri).partition("?")[0] == text


@pytest.mark.parametrize(
    "uri",
    [
        f"http://carl:{SECRET}@host",
        f"carl:{SECRET}@host",
        f"amqp:carl:{SECRET}@host",
        f"amqp://carl:{SECRET}@host:port",
        f"amqp://carl:{SECRET}@host:0",
        f"amqp://carl:{SECRET}@[bad",
        f"amqp://carl:{SECRET}@rest@host",
        f"amqp://carl:12/{SECRET}@host",
        f"amqp://carl:12#{SECRET}@host",
        f"amqp://carl:12?{SECRET}@host",
        f"amqp://carl:{SECRET} @host",
        f"amqp://carl:{SECRET}\n@host",
        f"amqp://carl:{SECRET}\\@host",
        f"amqp://carl:{SECRET}@",
        f"amqp://carl:{SECRET}@/vhost",
        "amqp://:5672",
        f"amqp://host/a/{SECRET}",
        f"amqp://carl:{SECRET}@host/" + "x" * URI_MOST,
        "",
        5,
        None,
        {"uri": SECRET},
    ],
)
def test_text_that_hides_where_a_secret_ends_is_refused_without_quotation(uri: object) -> None:
    with pytest.raises(PreconditionFailed) as caught:
        read_uri("it", uri)
    assert str(caught.value).startswith("it ")
    assert SECRET not in str(caught.value)
    assert SECRET not in str(hidden(uri)) or not isinstance(uri, str) or "://" not in uri


def read_text(uri: str) -> str:
    """Return the text of a URI, or of its refusal."""
    try:
        return read_uri("it", uri).text
    except PreconditionFailed as error:
        return str(error)


@given(st.text(max_size=12), st.text(max_size=12))
def test_text_of_a_uri_never_has_its_password(user: str, rest: str) -> None:
    password = "pä-s3cret-1"
    for uri in (f"amqp://{user}:{password}@{rest}", f"amqp://{user}:{password}{rest}@host/v"):
        assert password not in hidden_uri(uri)
        assert password not in read_text(uri)


def test_list_of_uris_is_read() -> None:
    assert [each.host for each in read_uris("it", ["amqp://a", "amqp://b"])] == ["a", "b"]
    assert [each.host for each in read_uris("it", "amqp://a")] == ["a"]
    with pytest.raises(PreconditionFailed, match="it must be a URI of amqp or amqps, or a list of them"):
        read_uris("it", [])


def test_uris_in_a_value_keep_their_places_and_lose_secrets() -> None:
    value = {
        "src-uri": [f"amqp://u:{SECRET}@h/v?password={SECRET}", "amqp://"], "src-queue": "q",
        "source": f"amqp://u:{SECRET}@h?queue=a%26b&heartbeat=5", "count": 5, "bad": f"amqp://u:{SECRET}@h:x",
    }  # fmt: skip
    assert hidden(value) == {
        "src-uri": ["amqp://h/v", "amqp://"], "src-queue": "q", "source": "amqp://h?queue=a%26b", "count": 5,
        "bad": "amqp://...",
    }  # fmt: skip
