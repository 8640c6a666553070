"""Users in the settings file."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.access.access_table import AccessTable
from penstock.access.user import User
from penstock.errors import ConfigError
from penstock.settings.config import changed_at_start, load
from penstock.settings.file_users import is_open_to_others

RABBITMQ = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
"""RabbitMQ's hash of test12."""


def write(folder: Path, users: str) -> Path:
    path = folder / "penstock.toml"
    path.write_text(f"[users]\n{users}\n")
    return path


def read(folder: Path, users: str) -> dict[str, User]:
    found = load(write(folder, users)).users
    assert found is not None
    return {user.name: user for user in found}


def verifies(user: User, password: str) -> bool:
    return user.password_hash is not None and user.password_hash.verify(password)


def test_users_have_passwords_and_tags(tmp_path: Path) -> None:
    users = read(tmp_path, 'ada = "a"\nbob = { password = "b", tags = ["monitoring"] }\nguest = "g"\neve = "e"')
    assert {name: user.tags for name, user in users.items()} == {
        "ada": ["administrator"],
        "bob": ["monitoring"],
        "guest": ["administrator"],
        "eve": [],
    }
    assert [verifies(users[name], name[0]) for name in users] == [True] * 4
    assert all(user.everywhere for user in users.values())


def test_users_need_no_restart(tmp_path: Path) -> None:
    before = load(write(tmp_path, 'ada = "a"'))
    assert changed_at_start(before, load(write(tmp_path, 'ada = "b"'))) == []


def test_password_is_given_by_a_hash_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("hush\n")
    monkeypatch.setenv("BOBS_SECRET", "quiet")
    users = read(
        tmp_path,
        f'ada = {{ password_hash = "{RABBITMQ}" }}\n'
        'bob = { password_env = "BOBS_SECRET" }\neve = { password_file = "secret" }\n'
        'nobody = { password_hash = "" }',
    )
    assert verifies(users["ada"], "test12")
    assert verifies(users["bob"], "quiet")
    assert verifies(users["eve"], "hush")
    assert users["nobody"].password_hash is None


def test_permissions_take_the_place_of_everything_everywhere(tmp_path: Path) -> None:
    users = read(
        tmp_path,
        "[users.ada]\n"
        'password = "a"\n'
        'permissions = { "/" = { configure = "", write = "^orders", read = ".*" } }\n'
        'topic_permissions = { "/" = { "amq.topic" = { write = "^a", read = "^b" } } }\n'
        "limits = { max-connections = 2, max-channels = -1 }",
    )
    table = AccessTable({"/": None, "/shop": None})
    table.set_file_users(users.values())
    assert table.may_enter("ada", "/")
    assert not table.may_enter("ada", "/shop")
    assert table.permits("ada", "write", "/", "orders")
    assert not table.permits("ada", "configure", "/", "orders")
    assert table.topic_permission("ada", "/", "amq.topic") is not None
    assert (table.user_limit("ada", "max-connections"), table.user_limit("ada", "max-channels")) == (2, -1)


def test_name_with_a_control_character_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"the name 'a\\nda' of a user has a control character"):
        load(write(tmp_path, r'"a\nda" = "secret"'))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("7", "must be a password in quotes, or a table"),
        ('{ tags = ["administrator"] }', "must be a password in quotes, or a table"),
        ('{ password = "hush", tag = ["administrator"] }', r"has the unknown key tag; did you mean tags\?"),
        ('{ password = "hush", password_hash = "hush" }', "it has one of password, password_file, password_env"),
        ("{ password = 7 }", "password must be a string, not a number"),
        ('""', "a password must not be empty"),
        (
            '{ password = "hush", tags = ["adminstrator"] }',
            r"tags must be a list of strings among .*, not .*; did you mean administrator\?",
        ),
        ('{ password_hash = "hush" }', "password_hash has 3 bytes; rabbit_password_hashing_sha256 needs 36"),
        (
            '{ password_hash = "hush", hashing_algorithm = "sha1" }',
            "unknown hashing_algorithm 'sha1'; known are",
        ),
        ('{ password = "hush", hashing_algorithm = "md5" }', "hashing_algorithm is for a password_hash only"),
        (
            '{ password_env = "NO_SUCH_NAME" }',
            "the environment variable NO_SUCH_NAME, which password_env names",
        ),
        ('{ password_file = "nothing" }', "cannot read password_file"),
        ('{ password = "hush", permissions = 7 }', "permissions must be a table"),
        (
            '{ password = "hush", permissions = { "/" = { read = "x" } } }',
            "a table of the expressions configure",
        ),
        (
            '{ password = "hush", permissions = { "/" = { configure = "", write = "(?=x)", read = "" } } }',
            r"write permission of user 'ada' in vhost '/': RE2 refuses '\(\?=x\)': invalid perl operator",
        ),
        ('{ password = "hush", limits = { max-queues = 1 } }', "unknown limit 'max-queues'; known are max-connections"),
        (
            '{ password = "hush", limits = { max-channels = "1" } }',
            "limit max-channels must be a whole number, not '1'",
        ),
    ],
)
def test_bad_user_is_refused_with_the_line_and_without_the_secret(tmp_path: Path, given: str, said: str) -> None:
    with pytest.raises(ConfigError, match=rf"line 2: user 'ada' in \[users\].*{said}") as refused:
        load(write(tmp_path, f"ada = {given}"))
    assert "hush" not in str(refused.value)


def test_passwords_readable_by_other_users_are_noticed(tmp_path: Path) -> None:
    path = write(tmp_path, 'ada = "a"')
    path.chmod(0o644)
    assert is_open_to_others(path)
    path.chmod(0o640)
    assert not is_open_to_others(path)
    path.unlink()
    assert not is_open_to_others(path), "it was moved away meanwhile"


@pytest.mark.parametrize(
    ("given", "clear"),
    [
        ('"a"', True),
        ('{ password = "a", tags = [] }', True),
        ('{ password_file = "secret" }', False),
        ('{ password_env = "HOME" }', False),
        (f'{{ password_hash = "{RABBITMQ}" }}', False),
    ],
)
def test_clear_password_is_one_in_the_file_itself(tmp_path: Path, given: str, clear: bool) -> None:
    (tmp_path / "secret").write_text("a")
    assert load(write(tmp_path, f"ada = {given}")).clear_passwords is clear
