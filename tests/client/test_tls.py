"""TLS of a client."""

from __future__ import annotations

import ssl

import pytest

from penstock.client.tls import context_of, tls_context


def test_missing_file_is_named() -> None:
    with pytest.raises(ValueError, match=r"the file '/no/ca\.pem' for TLS is not there"):
        tls_context("/no/ca.pem")


def test_server_is_verified_unless_the_option_disables_verification() -> None:
    assert context_of({}).verify_mode is ssl.CERT_REQUIRED
    assert context_of({"verify": "verify_none"}).verify_mode is ssl.CERT_NONE
    with pytest.raises(ValueError, match="verify_peer or verify_none"):
        context_of({"verify": "maybe"})
