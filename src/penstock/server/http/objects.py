"""Handlers about the user of a request and its password."""

from __future__ import annotations

import asyncio
import os

from starlette.responses import Response

from penstock.access.password_hash import (
    RABBITMQ_SALT,
    SALT,
    SCRYPT_SALT,
    PasswordHash,
    ScramKeys,
    derive_scram_keys,
    hash_password,
    rabbitmq_hash,
    scram_text,
)
from penstock.describe.table import Row
from penstock.server.http.request import ApiRequest, bad_request, json_response
from penstock.settings.kind import TEXT


async def whoami(request: ApiRequest) -> Response:
    """Return the user of the request."""
    return json_response({"name": request.user, "tags": request.rules.tags()})


async def hash_given(fields: Row) -> None:
    """Replace the password in a body by its hash and keys. Raises HttpError (400) for a body that also has a hash."""
    if "password" in fields and "password_hash" in fields:
        raise bad_request("both_password_and_password_hash_are_provided")
    given = fields.get("password", "")
    password: object = TEXT.parse(given)
    if not isinstance(password, str):
        raise bad_request(TEXT.fault("'password'", given, secret=True))
    if not password:
        return
    hashed, scram = await asyncio.to_thread(_derive, password)
    fields["password_hash"], fields["hashing_algorithm"] = hashed.text(), hashed.algorithm
    if scram is not None:
        fields["scram_secret"] = scram_text(scram)


async def password_hash(request: ApiRequest) -> Response:
    """Return RabbitMQ's hash of the password in the path, for definitions."""
    return json_response({"ok": rabbitmq_hash(request.part("password"), os.urandom(RABBITMQ_SALT)).text()})


def _derive(password: str) -> tuple[PasswordHash, ScramKeys | None]:
    """Return hash and keys of a password, computed in a thread because the computation is slow."""
    return hash_password(password, os.urandom(SCRYPT_SALT)), derive_scram_keys(password, os.urandom(SALT))
