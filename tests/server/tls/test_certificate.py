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
    certificates,
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


def test_year_after_2050_has_four_digits(tmp_path: Path) -> None:
    path = Authority(tmp_path).issue("late", "late.example.org", days=20_000)
    assert first_certificate(path.read_text()).ends.year > 2070


def test_text_without_a_certificate_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NotACertificate, match="it has no certificate in PEM form"):
        first_certificate("nothing")
    text = Authority(tmp_path).issue("a", "a.example.org").read_text().splitlines()
    with pytest.raises(NotACertificate, match="damaged"):
        first_certificate("\n".join([text[0], *text[5:]]))


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_read_as_a_certificate_or_refused(octets: bytes) -> None:
    with pytest.raises(NotACertificate):
        read_certificate(octets)


DER = ssl.PEM_cert_to_DER_cert(trustme.CA().issue_cert("a.example.org").cert_chain_pems[0].bytes().decode())


@given(st.data())
def test_damaged_certificate_is_read_or_refused(data: st.DataObject) -> None:
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
    [ends] = [each.ends for each in revocation_lists(text)]
    assert ends is not None
    assert (ends - datetime.now(UTC)).days == 9
    assert len(revocation_lists(text + text)) == 2
    der = base64.b64decode("".join(text.splitlines()[1:-1]))
    for at in range(len(der)):
        damaged = base64.b64encode(der[:at] + bytes([der[at] ^ 0x5A]) + der[at + 1 :]).decode()
        with contextlib.suppress(NotACertificate):
            revocation_lists(f"{BEGIN_LIST}\n{damaged}\n{END_LIST}")


def test_issuer_of_a_list_is_compared_without_regard_to_case_spaces_and_kind_of_text() -> None:
    def issuer(tag: int, value: bytes) -> tuple[tuple[bytes, str], ...]:
        attribute = bytes([0x30, 5 + 2 + len(value), 6, 3, 0x55, 4, 3, tag, len(value)]) + value
        named = bytes([0x30, len(attribute) + 2, 0x31, len(attribute)]) + attribute
        times = b"\x17\x0d200101000000Z"
        body = b"\x02\x01\x01\x30\x00" + named + times
        inner = bytes([0x30, len(body)]) + body
        der = bytes([0x30, len(inner)]) + inner
        [found] = revocation_lists(f"{BEGIN_LIST}\n{base64.b64encode(der).decode()}\n{END_LIST}")
        assert found.ends is None
        return found.issuer.key

    same = [issuer(0x13, b"Root CA"), issuer(0x0C, b" root  ca"), issuer(0x1E, "Root CA".encode("utf-16-be"))]
    assert len({*same}) == 1
    assert issuer(0x0C, b"Root CB") != same[0]


def test_certificates_of_a_text_are_all_read(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    below = authority.intermediate("below")
    text = "Root:\n" + authority.ca.read_text() + "Below:\n" + below.ca.read_text()
    one, two = certificates(text)
    assert one.name.key != two.name.key
    assert one.name.text.startswith("trustme v")
    with pytest.raises(NotACertificate, match="damaged"):
        certificates(text[:-20])
