"""Tokens in the settings file: `[oauth]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.settings.file_tables import TokenSettings, read_tokens
from tests.support.tokens import FixedKeys

URL = "https://id.example/keys"


def read(table: dict[str, Any], folder: Path) -> TokenSettings:
    return read_tokens(table, folder, lambda at, text: ConfigError(f"{at[-1]}: {text}"))


def test_least_settings_are_the_name_of_the_broker_and_its_keys(tmp_path: Path) -> None:
    settings = read({"resource_server_id": "rabbitmq", "keys": URL}, tmp_path)
    policy = settings.policy(FixedKeys({}))
    assert settings.keys == URL
    assert (policy.resource_server, policy.scope_prefix, policy.issuer) == ("rabbitmq", "rabbitmq.", "")
    assert (policy.leeway_s, policy.name_claims, policy.scope_claims) == (30, ["sub", "client_id"], ["scope"])


def test_token_settings_have_the_names_of_rabbitmq(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text("{}")
    policy = read(
        {
            "resource_server_id": "rabbitmq",
            "keys": "keys.json",
            "scope_prefix": "",
            "issuer": "https://id.example",
            "preferred_username_claims": ["email"],
            "additional_scopes_key": "roles",
            "leeway_s": 0,
        },
        tmp_path,
    ).policy(FixedKeys({}))
    assert (policy.scope_prefix, policy.issuer, policy.leeway_s) == ("", "https://id.example", 0)
    assert (policy.name_claims, policy.scope_claims) == (["email", "sub", "client_id"], ["scope", "roles"])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"resource_server_id": None}, r"\[oauth\] needs the setting resource_server_id"),
        ({"keys": None}, r"\[oauth\] needs the setting keys"),
        ({"keys": 7}, "keys in .* must be a string that is not empty, not a number"),
        ({"keys": "http://id.example/keys"}, r"^.*keys in \[oauth\] must be a URL of https, or of this machine$"),
        (
            {"keys": "https://me:secret@id.example/keys"},
            r"\[oauth\] must be a URL .* without user and fragment$",
        ),
        ({"keys": "ftp://me:secret@id.example/keys"}, r"keys in \[oauth\] must be a URL of http or https"),
        ({"keys": "none.json"}, "name the file '.*none.json', which is not there"),
        ({"leeway_s": 3_601}, "must be seconds from 0 to 3600 \\(such as 30s\\), not 3601"),
        ({"leeway_s": True}, "must be seconds from 0 to 3600 .*, not true"),
        ({"additional_scopes_key": [7]}, "must be a string or a list of strings that are not empty, not \\[7\\]"),
        ({"audience": "x"}, r"\[oauth\] has no setting 'audience'; known are resource_server_id, keys"),
    ],
)
def test_errors_name_the_setting_and_the_rule(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    table = {"resource_server_id": "rabbitmq", "keys": URL, **change}
    with pytest.raises(ConfigError, match=reason):
        read({key: value for key, value in table.items() if value is not None}, tmp_path)


def test_keys_may_come_from_this_machine_without_tls(tmp_path: Path) -> None:
    source = "http://localhost:8080/keys"
    assert read({"resource_server_id": "rabbitmq", "keys": source}, tmp_path).keys == source
