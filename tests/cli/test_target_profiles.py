"""Profiles: a file with brokers by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.target import exposed, profile_of, profiles_file, read_profiles
from penstock.errors import ConfigError


def written(folder: Path, text: str, mode: int = 0o600) -> Path:
    path = folder / "profiles.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_file_is_in_the_folder_of_settings_or_where_a_variable_says() -> None:
    assert profiles_file({"PENSTOCK_PROFILES": "/p.toml", "XDG_CONFIG_HOME": "/x"}) == Path("/p.toml")
    assert profiles_file({"XDG_CONFIG_HOME": "/x"}) == Path("/x/penstock/profiles.toml")
    assert profiles_file({}) == Path("~/.config/penstock/profiles.toml").expanduser()
    assert profiles_file({"PENSTOCK_PROFILES": "~no-such-user/p.toml"}) == Path("~no-such-user/p.toml"), "no traceback"


def test_profile_has_a_url_files_beside_it_and_a_password_from_a_file(tmp_path: Path) -> None:
    path = written(tmp_path, '[a]\nurl = "amqps://anna@h/v?x=y"\npassword-file = "word"\ncacert = "/ca.pem"\n')
    (tmp_path / "word").write_text("p@ss/1\n")
    found = profile_of(path, read_profiles(path), "a")
    assert found == ("amqps://anna:p%40ss%2F1@h/v?x=y", "/ca.pem", "", "")
    assert read_profiles(tmp_path / "none") == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[a", "is not TOML"),
        ("a = " + "[" * 5_000, "is not TOML"),
        ("a = 1", "'a' is no profile"),
        ("[a]\nurll = 'x'", "unknown key 'urll' in profile a; did you mean url?"),
        ("[a]\nurl = 1", "url of profile a must be a text"),
        ("[a]\ncacert = 'x'", "profile a has no url"),
        ("[a]\nurl = 'amqp://h'\n[b]\nurl = 'amqp://h'\npassword-file = 'none'", "cannot read the password-file"),
        ("[b]\nurl = 'amqp://u:secret@h'\npassword-file = 'profiles.toml'", "has a user and no password"),
        ("[bb]\nurl = 'amqp://h'", "no profile 'b' in '.*'; did you mean bb?"),
    ],
)
def test_file_that_cannot_be_used_is_one_sentence_without_its_passwords(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError, match=says) as caught:
        profile_of(path, read_profiles(path), "b")
    assert "secret" not in str(caught.value)


def test_password_readable_by_other_users_is_a_warning(tmp_path: Path) -> None:
    path = written(tmp_path, '[a]\nurl = "amqp://u:p@h/"\n')
    assert exposed(path, read_profiles(path)) is None
    path.chmod(0o640)
    assert f"others can read the password in '{path}'" in (exposed(path, read_profiles(path)) or "")
    path = written(tmp_path, '[a]\nurl = "amqp://u@h/"\n', 0o644)
    assert exposed(path, read_profiles(path)) is None, "without a password there is nothing to hide"
    path = written(tmp_path, '[a]\nurl = "amqp://u@h/"\npassword-file = "word"\n', 0o644)
    (tmp_path / "word").write_text("x")
    (tmp_path / "word").chmod(0o644)
    assert str(tmp_path / "word") in (exposed(path, read_profiles(path)) or "")
