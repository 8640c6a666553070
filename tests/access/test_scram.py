"""Keys for SCRAM-SHA-256."""

from __future__ import annotations

import base64

from penstock.access.scram import derive_scram_keys


def test_keys_are_those_of_the_example_in_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    keys = derive_scram_keys("pencil", salt)
    assert keys is not None
    assert keys[0] == salt
    assert keys[3] == 4096
    assert base64.b64encode(keys[1]) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(keys[2]) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


def test_a_password_that_saslprep_does_not_permit_has_no_keys() -> None:
    assert derive_scram_keys("line\x07", b"0123456789abcdef") is None
