"""Logins of HTTP requests by token; passwords are in tests/server/test_users.py."""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.server.server import Server
from penstock.settings.config import load
from tests.support.brokers import serving, settings_file
from tests.support.http_client import Web
from tests.support.tokens import pem, rsa_key, token


def test_http_takes_tokens_as_passwords_and_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(pem(rsa_key()))
    options = settings_file(tmp_path, '[oauth]\nresource_server_id = "penstock"\nkeys = "key.pem"\n')
    with serving(tmp_path, *options, "--http", "127.0.0.1:0") as broker:
        check(broker.http)


def check(url: str) -> None:
    given = token("penstock.tag:administrator")
    anna = {"name": "anna", "tags": ["administrator"]}
    web = Web(url, "whoever", given)
    assert web.get("/whoami") == anna
    assert web.ask("GET", "/whoami", headers={"Authorization": f"Bearer {given}"}, login=False).json == anna
    assert web.ask("GET", "/overview").status == 200
    plain = token("penstock.read:*/*", sub="guest")
    assert Web(url, "guest", plain).ask("GET", "/overview").status == 401, "the name alone grants nothing"
    for refused in (token(aud="other"), "nonsense", ""):
        assert web.ask("GET", "/whoami", headers={"Authorization": f"Bearer {refused}"}, login=False).status == 401


async def test_requests_beyond_the_login_rate_are_answered_with_retry_after(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(
        "[broker]\nlogin-rate-max = 1\n[users]\nada = 'lovelace'\n"
        "old = {password_hash = 'kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR', tags = ['management']}\n"
    )
    async with Server("127.0.0.1:0", http="127.0.0.1:0", settings=load(file)) as broker:
        wrong = Web(broker.http_url, "old", "wrong")
        refused = [401]
        while 429 not in refused:  # They come within a second, unless the machine is very slow.
            asked = [asyncio.to_thread(wrong.ask, "GET", "/whoami") for _ in range(3)]
            answers = await asyncio.gather(*asked)
            refused = [answer.status for answer in answers]
            assert set(refused) <= {401, 429}
        (told, *_) = [answer for answer in answers if answer.status == 429]
        assert told.headers["retry-after"] == "1"
        assert "node login limit (1 a second) is reached; login-rate-max sets it" in told.reason
        known = Web(broker.http_url, "ada", "lovelace")
        for _ in range(3):
            assert (await asyncio.to_thread(known.ask, "GET", "/whoami")).status == 200, "it needs no verification"
