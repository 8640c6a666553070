"""PLAIN responses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.sasl import SaslError, parse_plain, plain_response

names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=40)


@given(names, names | st.just(""))
def test_plain_response_comes_back_as_it_went_out(user: str, password: str) -> None:
    assert parse_plain(plain_response(user, password)) == (user, password)


def test_authorisation_identity_may_repeat_the_user() -> None:
    assert parse_plain(b"guest\0guest\0secret") == ("guest", "secret")


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"guest",
        b"guest\0secret",
        b"\0guest\0secret\0more",
        b"\0\0secret",
        b"root\0guest\0secret",
        b"\0\xff\0secret",
        b"\0guest\0\xff",
    ],
)
def test_malformed_plain_response_is_refused(response: bytes) -> None:
    with pytest.raises(SaslError) as caught:
        parse_plain(response)
    assert "secret" not in str(caught.value)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_raise_sasl_errors_only(response: bytes) -> None:
    try:
        user, _ = parse_plain(response)
    except SaslError:
        return
    assert user


@pytest.mark.parametrize(("user", "password"), [("a\0b", "c"), ("a", "b\0c")])
def test_plain_cannot_carry_a_nul(user: str, password: str) -> None:
    with pytest.raises(SaslError, match="NUL"):
        plain_response(user, password)
