"""Logins of HTTP requests by token; passwords are in tests/server/test_users.py."""

from __future__ import annotations

from pathlib import Path

from tests.support.brokers import serving
from tests.support.http_client import Web
from tests.support.tokens import pem, rsa_key, token


def test_http_takes_tokens_as_passwords_and_by_themselves(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(pem(rsa_key()))
    settings = tmp_path / "penstock.toml"
    settings.write_text('[oauth]\nresource_server_id = "penstock"\nkeys = "key.pem"\n')
    with serving(tmp_path, "--config", str(settings), "--http", "127.0.0.1:0") as broker:
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
