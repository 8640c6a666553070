"""The settings file: users, and lists of known names."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import changed_at_start, load
from penstock.errors import ConfigError


def write(folder: Path, users: str) -> Path:
    path = folder / "penstock.toml"
    path.write_text(f"[users]\n{users}\n")
    return path


def test_users_are_configured_with_tags_or_with_a_password_alone(tmp_path: Path) -> None:
    before = load(write(tmp_path, 'ada = "a"\nbob = { password = "b", tags = ["administrator"] }'))
    assert before.users == {"ada": "a", "bob": "b"}
    assert before.user_tags == {"bob": ["administrator"]}
    after = load(write(tmp_path, 'ada = "a"\n[users.bob]\npassword = "b"\ntags = []'))
    assert changed_at_start(before, after) == ["users"]


@pytest.mark.parametrize(
    "given",
    ["7", "{ password = 7 }", '{ tags = ["administrator"] }', '{ password = "hush", tag = ["administrator"] }'],
)
def test_a_user_without_a_password_in_quotes_is_refused_with_the_line_and_without_what_was_given(
    tmp_path: Path, given: str
) -> None:
    with pytest.raises(ConfigError, match=r"line 2: user 'ada' in \[users\] must be a password in quotes") as refused:
        load(write(tmp_path, f"ada = {given}"))
    assert "hush" not in str(refused.value)


def test_an_unknown_tag_is_refused_and_the_known_ones_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="tags of user 'ada' must be a list of known tags, which are administrator"):
        load(write(tmp_path, 'ada = { password = "a", tags = ["adminstrator"] }'))


def test_sasl_mechanisms_are_a_list_of_known_ones(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('[broker]\nsasl-mechanisms = ["PLAIN", "SCRAM-SHA-256"]\n')
    settings = load(path)
    assert settings.sasl_mechanisms == ["PLAIN", "SCRAM-SHA-256"]
    path.write_text('[broker]\nsasl-mechanisms = ["PLAIN", "GSSAPI"]\n')
    with pytest.raises(ConfigError, match=r"line 2: sasl-mechanisms has the unknown 'GSSAPI'; known are EXTERNAL, SC"):
        load(path)


@pytest.mark.parametrize("name", ["min-large-message", "amqpMinLargeMessageSize"])
def test_bound_of_large_messages_has_the_name_of_artemis_too(tmp_path: Path, name: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(f"[broker]\n{name} = 2000000\n")
    assert load(file).min_large_message == 2_000_000
