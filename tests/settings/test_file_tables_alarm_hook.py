"""Table `[alarm-hook]` of the settings file: the URL, one source of the secret, and what refusals and lists show."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.settings.config import load, table_rows
from penstock.settings.file_tables import HookSettings


def hook_of(folder: Path, text: str) -> HookSettings:
    """Return the settings of a hook, whose table has these lines."""
    file = folder / "penstock.toml"
    file.write_text(f"[alarm-hook]\n{text}\n")
    found = load(file).hook
    assert found is not None
    return found


def test_table_has_defaults_for_all_but_the_url(tmp_path: Path) -> None:
    assert hook_of(tmp_path, 'url = "https://alerts.example.org/in"') == HookSettings("https://alerts.example.org/in")


@pytest.mark.parametrize("source", ["secret", "secret-file", "secret-env"])
def test_secret_comes_from_the_file_another_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    monkeypatch.setenv("HOOK_KEY", "s3cret")
    value = {"secret": "s3cret", "secret-file": "key", "secret-env": "HOOK_KEY"}[source]
    assert hook_of(tmp_path, f'url = "http://127.0.0.1/"\n{source} = "{value}"').secret == "s3cret"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "[alarm-hook] needs the setting url: the URL that gets changes of alarms"),
        ('url = "ftp://hush"', "line 2: url in [alarm-hook] must be a URL of http or https without user and fragment"),
        ('url = "https://user:hush@there/"', "must be a URL of http or https without user and fragment"),
        ('url = "http://there/hush"', "url in [alarm-hook] must be a URL of https, or of this machine"),
        ('url = "https://there/"\nsecret = "hush"\nsecret-env = "X"', "give only one of secret and secret-env"),
        ('url = "https://there/"\nsecret-env = "NOT_SET_HERE"', "variable NOT_SET_HERE of secret-env is not set"),
        ('url = "https://there/"\nsecret-file = "none"', "cannot be read: No such file or directory"),
        ('url = "https://there/"\ntimeout_s = 0', "timeout_s in [alarm-hook] must be seconds"),
        ('url = "https://there/"\nca = "none.pem"', "which is not there"),
        ('url = "https://there/"\nurls = 1', "did you mean url?"),
        ("url = 5", "url in [alarm-hook] must be a string"),
    ],
)
def test_invalid_table_is_refused_with_the_rule_and_without_secrets(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        hook_of(tmp_path, text)
    assert reason in str(error.value)
    assert "hush" not in str(error.value)


def test_insecure_url_of_another_machine_is_taken_if_that_is_said(tmp_path: Path) -> None:
    assert hook_of(tmp_path, 'url = "http://there/"\ninsecure = true').url == "http://there/"


def test_configuration_shows_the_server_alone(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text('[alarm-hook]\nurl = "https://there:8443/hush?token=hush"\nsecret = "hush"\n')
    settings = load(file)
    (row,) = table_rows(settings)
    assert (row["setting"], row["value"]) == ("[alarm-hook]", {"url": "https://there:8443", "signed": True})
    assert settings.clear_passwords
    assert "hush" not in repr(settings.hook)
