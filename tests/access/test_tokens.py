"""Tokens instead of passwords: required claims, and each reason of a refusal."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest

from penstock.access.permission import READ
from penstock.access.tokens import SCOPES_MOST, TOKEN_OCTETS, TokenCheck, TokenPolicy, expired_words, looks_like_token
from tests.support.tokens import ec_key, pem, policy, rsa_key, token

NOW = 1_800_000_000.0


def checked(given: str, accepted: TokenPolicy | None = None) -> TokenCheck:
    check = TokenCheck(NOW, policy() if accepted is None else accepted, given)
    assert check.is_slow()
    assert check.remote
    check.verify()
    return check


def test_token_names_its_user_its_scopes_and_its_end() -> None:
    check = checked(token("penstock.read:%2F/orders", "penstock.tag:monitoring", "other.write:*/*", exp=NOW + 60))
    assert (check.refusal(), check.user, check.expires_at()) == ("", "anna", NOW + 90)
    rules = check.rules()
    assert rules.permits(READ, "/", "orders")
    assert not rules.permits("write", "/", "orders")
    assert rules.tags() == ["monitoring"]


def test_token_without_an_end_never_expires() -> None:
    assert checked(token()).expires_at() == float("inf")


def test_token_may_be_signed_by_each_key_of_the_set() -> None:
    assert checked(token(key=ec_key(), key_id="curve", algorithm="ES256")).refusal() == ""
    assert checked(token(algorithm="PS384")).refusal() == ""


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"aud": "other"}, "audience of the token does not include 'penstock', resource-server-id"),
        ({"aud": None}, "audience"),
        ({"aud": "other penstock"}, "audience"),
        ({"aud": ["other penstock"]}, "audience"),
        ({"aud": {"penstock": 1}}, "audience"),
        ({"exp": NOW - 30}, expired_words(NOW - 30, NOW)),
        ({"exp": "soon"}, "exp of the token is no number"),
        ({"exp": True}, "exp of the token is no number"),
        ({"exp": 1e300}, "exp of the token is no time"),
        ({"nbf": NOW + 31}, "token begins 31 s in the future: the clock here or at its issuer is wrong"),
        ({"iat": NOW + 3600}, "token was issued 3,600 s in the future: the clock here or at its issuer is wrong"),
        ({"sub": None}, "token names no user; claims that may are sub, client_id"),
        ({"sub": 7}, "names no user"),
        ({"sub": "a" * 256}, "of the token's user has 256 bytes; the most is 255"),
        ({"sub": "\ud800"}, "of the token's user has a control character or a lone surrogate"),
        ({"sub": "anna\nroot"}, r"name 'anna\nroot' of the token's user has a control character"),
        ({"sub": "anna\x9b31m"}, "has a control character"),
    ],
)
def test_claims_that_do_not_fit_are_refused(claims: dict[str, Any], reason: str) -> None:
    check = checked(token(**claims))
    assert reason in check.refusal()
    assert check.rules() is None


def test_scopes_are_bounded_and_may_need_no_prefix() -> None:
    plain = policy()
    plain.scope_prefix = ""
    assert checked(token(*["x"] * SCOPES_MOST), plain).refusal() == ""
    refusal = checked(token(*["x"] * (SCOPES_MOST + 1)), plain).refusal()
    assert refusal == f"token has {SCOPES_MOST + 1} scopes; the most is {SCOPES_MOST}"


def test_clocks_may_differ_a_little() -> None:
    assert checked(token(exp=NOW - 29, nbf=NOW + 30, iat=NOW + 30)).refusal() == ""


@pytest.mark.parametrize(("after_s", "is_accepted"), [(0.0, False), (2.99, False), (3.0, True), (4.0, True)])
def test_token_that_begins_later_is_judged_at_the_time_of_its_login(after_s: float, is_accepted: bool) -> None:
    """A login that comes 3 s later, as after late refusals of others, is within the leeway of 30 s."""
    check = TokenCheck(NOW + after_s, policy(), token(nbf=NOW + 33))
    check.verify()
    assert (check.refusal() == "") is is_accepted


def test_audience_may_be_a_list_and_the_user_another_claim() -> None:
    assert checked(token(aud=["a", "penstock"])).refusal() == ""
    assert checked(token(sub=None, client_id="app")).user == "app"
    named = policy()
    named.name_claims = ["email", "sub"]
    assert checked(token(email="a@example"), named).user == "a@example"
    assert checked(token(email=""), named).user == "anna"


def test_issuer_is_asked_for_if_one_is_set() -> None:
    strict = policy()
    strict.issuer = "https://id.example"
    assert checked(token(iss="https://id.example"), strict).refusal() == ""
    assert checked(token(), strict).refusal() == "issuer of the token is not 'https://id.example'"


def test_token_signed_by_another_is_refused() -> None:
    refusal = checked(token(key=rsa_key("another"))).refusal()
    assert refusal == "token is signed by another than the key that it names"
    assert checked(token(key_id="unknown")).refusal() == "no key unknown"


def unsigned(header: dict[str, Any], claims: dict[str, Any], secret: bytes = b"") -> str:
    """A token as an attacker writes it."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims)]
    signature = hmac.new(secret, b".".join(parts), hashlib.sha256).digest() if secret else b""
    return b".".join([*parts, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()


CLAIMS = {"aud": "penstock", "sub": "root", "scope": "penstock.tag:administrator"}


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "nOnE"])
def test_token_without_a_signature_is_refused(algorithm: str) -> None:
    refusal = checked(unsigned({"alg": algorithm, "kid": "one"}, CLAIMS)).refusal()
    assert refusal.startswith(f"token is signed with '{algorithm}'; its key permits RS256, ")


def test_public_key_as_the_secret_of_hmac_is_refused() -> None:
    for secret in (pem(rsa_key()), pem(rsa_key()).strip()):
        refusal = checked(unsigned({"alg": "HS256", "kid": "one"}, CLAIMS, secret)).refusal()
        assert refusal.startswith("token is signed with 'HS256'; its key permits RS256")


def test_header_cannot_bring_its_own_key() -> None:
    attacker = rsa_key("another")
    import jwt

    brought = {"jwk": {"kty": "RSA"}, "jku": "http://127.0.0.1:1/keys", "x5u": "http://127.0.0.1:1/", "kid": "one"}
    given = jwt.encode(CLAIMS, attacker, "RS256", brought)
    assert checked(given).refusal() == "token is signed by another than the key that it names"


@pytest.mark.parametrize(
    "given",
    ["", "..", "ey..", "eyJ9.e30.x", unsigned({"alg": 7, "kid": "one"}, {}), unsigned({"kid": []}, {}), "é.é.é"],
)
def test_malformed_token_is_refused(given: str) -> None:
    assert "token" in checked(given).refusal()


def test_token_that_is_too_long_is_not_looked_at() -> None:
    refusal = checked(token(filler="x" * TOKEN_OCTETS)).refusal()
    assert refusal.endswith(f"bytes; the most is {TOKEN_OCTETS}")


def test_refusal_quotes_no_token() -> None:
    for given in (token(aud="other"), token(key=rsa_key("another")), token()[:-9] + "x.y"):
        assert given[:40] not in checked(given).refusal()


def test_token_is_recognised_by_its_form() -> None:
    assert looks_like_token(token())
    assert not any(map(looks_like_token, ("guest", "", "a.b.c", "eyes")))
