"""Keys for SCRAM-SHA-256."""

from __future__ import annotations

import base64

import pytest

from penstock.access.password_hash import derive_scram_keys, read_scram_keys, scram_text
from penstock.errors import PreconditionFailed


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
def test_what_are_no_keys_is_refused(text: str) -> None:
    with pytest.raises(PreconditionFailed, match="scram_secret"):
        read_scram_keys(text)
