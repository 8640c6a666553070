"""Names in the certificates of clients."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.server.tls.certificate import distinguished_name, user_of

CERTIFICATE: dict[str, Any] = {
    "subject": ((("countryName", "GB"),), (("organizationName", "Engines, Ltd"),), (("commonName", "ada"),)),
    "subjectAltName": (("DNS", "ada.example.org"), ("email", "ada@example.org"), ("URI", "spiffe://shop/ada")),
}


@pytest.mark.parametrize(
    ("user_from", "user"),
    [
        ("cn", "ada"),
        ("dn", r"CN=ada,O=Engines\, Ltd,C=GB"),
        ("san-dns", "ada.example.org"),
        ("san-email", "ada@example.org"),
        ("san-uri", "spiffe://shop/ada"),
    ],
)
def test_user_is_the_part_of_the_certificate_that_is_set(user_from: str, user: str) -> None:
    assert user_of(CERTIFICATE, user_from) == user


@pytest.mark.parametrize(
    "names",
    [[], ["ada", "bob"], ["ada\n"], ["a\0b"], ["x" * 256]],
    ids=["none", "two", "line", "nul", "long"],
)
def test_certificate_that_names_no_user_or_several_or_an_unprintable_one_names_none(names: list[str]) -> None:
    subject = tuple((("commonName", name),) for name in names)
    assert user_of({"subject": subject}, "cn") == ""


def test_characters_that_separate_attributes_are_escaped() -> None:
    name = ((("commonName", "#a+b"), ("userId", " u ")),)
    assert distinguished_name(name) == r"CN=\#a\+b+UID=\ u\ "
    assert distinguished_name(((("1.2.3.4", "x"),),)) == "1.2.3.4=x"
