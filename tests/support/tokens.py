"""Tokens for tests, and the keys that sign them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from penstock.access.tokens import TokenError, TokenKey, TokenKeys, TokenPolicy
from penstock.server.remote_logins import parse_keys


@cache
def rsa_key(name: str = "one") -> rsa.RSAPrivateKey:
    """A key by its name; it is made once."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def jwk(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, key_id: str, **more: str) -> dict[str, Any]:
    """The public key as an identity provider tells it."""
    algorithm: Any = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": key_id, **more}


def token(*scopes: str, key: Any = None, key_id: str | None = "one", algorithm: str = "RS256", **claims: Any) -> str:
    """A token for the broker `penstock`; a claim that is None is left out."""
    given = {"aud": "penstock", "sub": "anna", "scope": " ".join(scopes), **claims}
    payload = {name: value for name, value in given.items() if value is not None}
    headers = {} if key_id is None else {"kid": key_id}
    return jwt.encode(payload, rsa_key() if key is None else key, algorithm, headers)


class FixedKeys(TokenKeys):
    """Keys that do not change."""

    def __init__(self, keys: dict[str, TokenKey]) -> None:
        self.keys = keys

    def find(self, key_id: str) -> TokenKey:
        if key_id not in self.keys:
            raise TokenError(f"no key {key_id}")
        return self.keys[key_id]


def policy() -> TokenPolicy:
    """A policy with the key `one`."""
    keys = parse_keys(json.dumps({"keys": [jwk(rsa_key(), "one"), jwk(ec_key(), "curve")]}).encode())
    return TokenPolicy("penstock", FixedKeys(keys))
