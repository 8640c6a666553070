"""AMQPLAIN responses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.amqp091.amqplain import parse_amqplain
from penstock.wire.amqp091.codec import encode_table
from penstock.wire.sasl import SaslError

names = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=40)


@given(names, names | st.just(""))
def test_amqplain_response_is_a_table_without_its_size(user: str, password: str) -> None:
    assert parse_amqplain(encode_table({"LOGIN": user, "PASSWORD": password})[4:]) == (user, password)


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
def test_arbitrary_bytes_raise_sasl_errors_only(response: bytes) -> None:
    try:
        user, _ = parse_amqplain(response)
    except SaslError:
        return
    assert user
