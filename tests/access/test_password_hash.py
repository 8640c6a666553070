"""Hashes of passwords, RabbitMQ's and ours.

Keys for SCRAM-SHA-256.
"""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.access.password_hash import (
    MD5,
    SCRYPT,
    SHA256,
    SHA512,
    PasswordHash,
    derive_scram_keys,
    file_password,
    hash_password,
    rabbitmq_hash,
    read_hash,
    read_scram_keys,
    scram_text,
)
from penstock.errors import PreconditionFailed

SALT = b"sixteen octets.."


def test_hash_of_rabbitmq_is_verified() -> None:
    # The example of RabbitMQ's guide "Credentials and passwords": password test12, salt 908DC60A.
    given = read_hash("kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR")
    assert (given.algorithm, given.salt.hex()) == (SHA256, "908dc60a")
    assert given.verify("test12")
    assert not given.verify("test13")
    assert given.needs_rehash()


@pytest.mark.parametrize("algorithm", [SHA256, SHA512, MD5])
@settings(max_examples=20)
@given(password=st.text(min_size=1, max_size=40), salt=st.binary(min_size=4, max_size=4))
def test_hashes_of_rabbitmq_survive_their_text(algorithm: str, password: str, salt: bytes) -> None:
    made = rabbitmq_hash(password, salt, algorithm)
    again = read_hash(made.text(), algorithm)
    assert again == made
    assert made.verify(password)
    assert not made.verify(password + "x")


@pytest.mark.parametrize("algorithm", [SHA256, SHA512, MD5])
def test_hash_without_an_algorithm_is_told_by_its_length(algorithm: str) -> None:
    given = read_hash(rabbitmq_hash("secret", b"salt", algorithm).text())
    assert given.algorithm == algorithm
    assert given.verify("secret")


def test_new_hash_is_scrypt_with_its_parameters() -> None:
    made = hash_password("secret", SALT)
    assert made.text().startswith("$scrypt$ln=14,r=8,p=1$")
    again = read_hash(made.text(), SCRYPT)
    assert again == made
    assert again.verify("secret")
    assert not again.verify("Secret")
    assert not again.needs_rehash()


def test_cheaper_scrypt_is_verified_and_replaced() -> None:
    cheap = read_hash("$scrypt$ln=4,r=8,p=1$c2l4dGVlbiBvY3RldHMuLg$" + "A" * 43, SCRYPT)
    assert not cheap.verify("secret")
    assert cheap.needs_rehash()


def test_password_of_the_settings_file_is_never_shown() -> None:
    made = file_password("secret")
    assert made.verify("secret")
    assert not made.verify("secre")
    assert made.text() == ""
    assert not made.needs_rehash()


def test_empty_hash_means_no_login_by_password() -> None:
    assert read_hash("") is None


@pytest.mark.parametrize(
    ("text", "algorithm", "said"),
    [
        ("AAAA", "rabbit_password_hashing_sha1", "unknown hashing_algorithm 'rabbit_password_hashing_sha1'; known are"),
        ("no base64!", SHA256, "password_hash is not base64"),
        ("AAAA", SHA256, "password_hash has 3 bytes; rabbit_password_hashing_sha256 needs 36"),
        ("$scrypt$ln=14", SCRYPT, "must be"),
        ("$scrypt$ln=30,r=8,p=1$AAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAA", SCRYPT, "at most 64 MiB"),
        ("$scrypt$ln=99999999,r=8,p=1$AAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAA", SCRYPT, "at most 64 MiB"),
        ("$scrypt$ln=14,r=8,p=99$AAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAA", SCRYPT, "p at most 4"),
        ("$scrypt$ln=14,r=8,p=1$A$AAAAAAAAAAAAAAAAAAAAAAAA", SCRYPT, "not base64"),
        ("$scrypt$ln=14,r=8,p=1$AAAA$AAAAAAAAAAAAAAAAAAAAAAAA", SCRYPT, "8 to 64 bytes"),
    ],
)
def test_invalid_hash_is_refused_without_quoting_the_hash(text: str, algorithm: str, said: str) -> None:
    with pytest.raises(PreconditionFailed, match=said.replace("(", "\\(")) as refused:
        read_hash(text, algorithm)
    assert "no base64!" not in str(refused.value)


@given(st.text(max_size=80), st.sampled_from([SHA256, SHA512, MD5, SCRYPT, "", "other"]))
def test_arbitrary_text_is_a_hash_or_refused(text: str, algorithm: str) -> None:
    try:
        made = read_hash(text, algorithm)
    except PreconditionFailed:
        return
    assert made is None or isinstance(made, PasswordHash)


@pytest.mark.parametrize("password", ["", "x" * 1025])
def test_empty_and_endless_passwords_are_refused(password: str) -> None:
    with pytest.raises(PreconditionFailed, match="a password"):
        hash_password(password, SALT)
    assert not file_password("x").verify(password)


def test_keys_are_those_of_the_example_in_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    keys = derive_scram_keys("pencil", salt)
    assert keys[0] == salt
    assert keys[3] == 4096
    assert base64.b64encode(keys[1]) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(keys[2]) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


def test_password_that_saslprep_does_not_permit_has_no_keys() -> None:
    assert derive_scram_keys("line\x07", b"0123456789abcdef") is None


def test_keys_survive_their_text() -> None:
    keys = derive_scram_keys("pencil", b"0123456789abcdef")
    assert keys is not None
    assert read_scram_keys(scram_text(keys)) == keys


@pytest.mark.parametrize(
    "text",
    [
        "",
        "SCRAM-SHA-256$1:AAAAAAAAAAA=$AAAA:AAAA",
        "SCRAM-SHA-256$9999999:AAAAAAAAAAA=$AAAA:AAAA",
        "SCRAM-SHA-256$4096:AAAAAAAAAAA=$AAAA:AAAA",
        "SCRAM-SHA-256$4096:!$AAAA:AAAA",
        "SCRAM-SHA-1$4096:AAAAAAAAAAA=$AAAA:AAAA",
    ],
)
def test_text_without_keys_is_refused(text: str) -> None:
    with pytest.raises(PreconditionFailed, match="scram_secret"):
        read_scram_keys(text)
