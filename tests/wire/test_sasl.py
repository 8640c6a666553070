"""PLAIN and AMQPLAIN responses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.amqp091.codec import encode_table
from penstock.wire.sasl import SaslError, parse_amqplain, parse_plain, plain_response

names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=40)


@given(names, names | st.just(""))
def test_plain_response_comes_back_as_it_went_out(user: str, password: str) -> None:
    assert parse_plain(plain_response(user, password)) == (user, password)


@given(names, names | st.just(""))
def test_amqplain_response_is_a_table_without_its_size(user: str, password: str) -> None:
    assert parse_amqplain(encode_table({"LOGIN": user, "PASSWORD": password})[4:]) == (user, password)


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


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\x05LOGIN",
        encode_table({"LOGIN": "guest"})[4:],
        encode_table({"PASSWORD": "secret"})[4:],
        encode_table({"LOGIN": "", "PASSWORD": "secret"})[4:],
        encode_table({"LOGIN": 5, "PASSWORD": "secret"})[4:],
        encode_table({"LOGIN": "guest", "PASSWORD": b"secret"})[4:],
        encode_table({"LOGIN": "guest", "PASSWORD": "secret"}),
    ],
)
def test_malformed_amqplain_response_is_refused(response: bytes) -> None:
    with pytest.raises(SaslError) as caught:
        parse_amqplain(response)
    assert "secret" not in str(caught.value)


@given(st.binary(max_size=60))
def test_arbitrary_octets_raise_nothing_but_a_sasl_error(response: bytes) -> None:
    for parse in (parse_plain, parse_amqplain):
        try:
            user, _ = parse(response)
        except SaslError:
            continue
        assert user


@pytest.mark.parametrize(("user", "password"), [("a\0b", "c"), ("a", "b\0c")])
def test_plain_cannot_carry_a_nul(user: str, password: str) -> None:
    with pytest.raises(SaslError, match="NUL"):
        plain_response(user, password)
