"""Redaction: secrets are removed, and other text stays."""

from __future__ import annotations

import pytest

from penstock.cli.report import HIDDEN, Redactor, secrets_of


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("amqp://anna:s3cret@host/v", "amqp://anna:***@host/v"),
        ("postgresql://u:p%40@h/d and amqps://h/", "postgresql://u:***@h/d and amqps://h/"),
        ("password=s3cret, user=anna", "password=***, user=anna"),
        ('{"client_secret": "s3 cret", "a": 1}', '{"client_secret": ***, "a": 1}'),
        ("Authorization: Bearer abcdefgh.ijkl", "Authorization: Bearer ***"),
        ("token eyJhbGciOi.eyJzdWIi.c2ln was refused", "token *** was refused"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----", HIDDEN),
        ("known-word as it is", "*** as it is"),
        ("queue orders: 3 messages, 741 bytes", "queue orders: 3 messages, 741 bytes"),
        ("con:2(guest@127.0.0.1:40312/)/ch:1", "con:2(guest@127.0.0.1:40312/)/ch:1"),
    ],
)
def test_secrets_of_a_text_are_replaced(text: str, found: str) -> None:
    assert Redactor(["known-word"]).text(text) == found


def test_known_secret_is_hidden_in_its_url_form_too() -> None:
    assert Redactor(["p@ss/1"]).text("p@ss/1 p%40ss%2F1") == f"{HIDDEN} {HIDDEN}"
    assert Redactor(["abc"]).text("abc") == "abc", "a word this short would hide half of the report"


def test_password_of_a_url_is_a_secret_with_any_characters() -> None:
    given = {"broker": {"store": "postgresql://u:it's @ me@h/d", "listen": ["h:5672"]}, "word": {"token": "abcd"}}
    assert list(secrets_of(given)) == ["it's @ me", "abcd"]
    shown = Redactor(secrets_of(given)).data({**given, "log": "no login with it's @ me"})
    assert "it's" not in str(shown)


def test_values_of_secret_names_are_replaced_at_any_depth() -> None:
    given = {
        "users": {"anna": {"password": "x", "password-file": "/p", "password_hash": "h", "tags": ["a"]}},
        "oauth": {"client-secret": "x", "token-url": "https://h"},
        "list": [{"api_key": "x"}, "amqp://u:x@h"],
        "password": None,
        "has_password": True,
        "tail": 5,
    }
    assert Redactor().data(given) == {
        "users": {"anna": {"password": "***", "password-file": "/p", "password_hash": "***", "tags": ["a"]}},
        "oauth": {"client-secret": "***", "token-url": "https://h"},
        "list": [{"api_key": "***"}, "amqp://u:***@h"],
        "password": None,
        "has_password": True,
        "tail": 5,
    }
