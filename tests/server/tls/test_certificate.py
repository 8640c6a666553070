"""Certificates in DER form."""

from __future__ import annotations

import base64
import contextlib
import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.tls.certificate import (
    BEGIN_LIST,
    END_LIST,
    NotACertificate,
    first_certificate,
    read_certificate,
    revocation_lists,
)
from tests.support.certificates import Authority


def test_names_and_times_of_a_certificate_are_read(tmp_path: Path) -> None:
    path = Authority(tmp_path).issue("shop", "shop.example.org", "10.0.0.7", days=10, common_name="Shop")
    found = first_certificate(path.read_text())
    assert found.subject == "Shop"
    assert found.names == ("shop.example.org", "10.0.0.7")
    assert found.begins == datetime(2020, 1, 1, tzinfo=UTC)
    now = datetime.now(UTC)
    assert found.days_left(now) == 9
    assert found.ends > now


def test_a_year_after_2050_has_four_digits(tmp_path: Path) -> None:
    path = Authority(tmp_path).issue("late", "late.example.org", days=20_000)
    assert first_certificate(path.read_text()).ends.year > 2070


def test_a_text_without_a_certificate_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotACertificate, match="it has no certificate in PEM form"):
        first_certificate("nothing")
    text = Authority(tmp_path).issue("a", "a.example.org").read_text().splitlines()
    with pytest.raises(NotACertificate, match="damaged"):
        first_certificate("\n".join([text[0], *text[5:]]))


@given(st.binary(max_size=200))
def test_any_octets_are_read_or_refused(octets: bytes) -> None:
    with pytest.raises(NotACertificate):
        read_certificate(octets)


DER = ssl.PEM_cert_to_DER_cert(trustme.CA().issue_cert("a.example.org").cert_chain_pems[0].bytes().decode())


@given(st.data())
def test_any_damage_is_read_or_refused(data: st.DataObject) -> None:
    der = bytearray(DER)
    der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_certificate(bytes(der))
    except NotACertificate:
        return


def test_ends_of_lists_are_read_and_any_damage_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    authority.issue("a", "a.example.org")
    text = authority.revoke("a", days=10).read_text()
    [ends] = revocation_lists(text)
    assert ends is not None
    assert (ends - datetime.now(UTC)).days == 9
    assert len(revocation_lists(text + text)) == 2
    der = base64.b64decode("".join(text.splitlines()[1:-1]))
    for at in range(len(der)):
        damaged = base64.b64encode(der[:at] + bytes([der[at] ^ 0x5A]) + der[at + 1 :]).decode()
        with contextlib.suppress(NotACertificate):
            revocation_lists(f"{BEGIN_LIST}\n{damaged}\n{END_LIST}")
