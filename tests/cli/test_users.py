"""Commands on users, permissions and limits, against a broker on a real port."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.client.errors import ClientError
from tests.support.brokers import BrokerProcess, some_name
from tests.support.commands import run, told
from tests.support.raw_channel import Connection


def test_user_is_added_permitted_and_deleted(
    broker: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, secret = some_name("user"), tmp_path / "secret"
    secret.write_text("first\n")
    said = run(broker, "users", "add", name, "--tags", "monitoring,other", "--password-file", str(secret))
    assert said == f"user {name} is added; `penstock permissions set {name} ...` permits something\n"
    assert "is there already" in run(broker, "users", "add", name, "--no-password", code=1)
    url = f"amqp://{name}:first@{broker.host}:{broker.port}/"
    with pytest.raises(ClientError, match=f"access to vhost '/' refused for user '{name}'"):
        Connection(url)
    run(broker, "permissions", "set", name, "^mine", "", "^mine")
    run(broker, "permissions", "set", name, "^a", "^b", "--topic", "amq.topic")
    listed = told(broker, "permissions", "list", "--user", name)["permissions"]
    assert [(row["configure"], row["write"], row["topic exchange"]) for row in listed] == [
        ("^mine", "", ""), ("", "^a", "amq.topic"),
    ]  # fmt: skip
    with Connection(url) as connection:
        connection.channel().queue_declare("mine", exclusive=True)
    monkeypatch.setenv("SECRET_OF_THE_TEST", "second")
    run(broker, "users", "passwd", name, "--password-env", "SECRET_OF_THE_TEST")
    with Connection(url.replace("first", "second")):
        pass
    run(broker, "users", "tags", name)
    (shown,) = (user for user in told(broker, "users", "list")["users"] if user["name"] == name)
    assert (shown["tags"], shown["password"]) == ([], True)
    assert name in run(broker, "users", "list")
    assert run(broker, "permissions", "clear", name) == f"user {name} has no permission in vhost /\n"
    assert run(broker, "users", "delete", name) == f"user {name} is deleted\n"
    assert f"no user '{name}'" in run(broker, "users", "delete", name, code=1)


def test_limits_are_set_listed_and_cleared(broker: BrokerProcess) -> None:
    name = some_name("user")
    run(broker, "users", "add", name, "--no-password")
    said = run(broker, "limits", "set", "user", name, "max-connections=2", "max-channels=5")
    assert said == f"user {name} has max-connections=2, max-channels=5\n"
    assert "max-connections=2, max-channels=5" in run(broker, "limits", "list")
    run(broker, "limits", "clear", "user", name, "max-channels")
    assert told(broker, "limits", "list")["users"][name] == {"max-connections": 2}
    assert told(broker, "limits", "list", "--filter", f"name={name}") == {
        "users": {name: {"max-connections": 2}},
        "vhosts": {},
    }
    assert told(broker, "limits", "list", "--filter", f"name={name}", "--columns", "scope") == {
        "limits": [{"scope": "user"}]
    }
    assert "limit max-channels must be a whole number, not 'many'" in run(
        broker, "limits", "set", "user", name, "max-channels=many", code=1
    )
    assert "unknown limit 'max-hats'" in run(broker, "limits", "set", "user", name, "max-hats=1", code=1)
    run(broker, "users", "delete", name)


def test_password_is_read_from_one_place(broker: BrokerProcess, tmp_path: Path) -> None:
    missing = str(tmp_path / "none")
    said = run(broker, "users", "add", "x", "--password-file", missing, code=1)
    assert said == f"penstock: cannot read the password file '{missing}': No such file or directory\n"
    assert "NO_SUCH_NAME is not set" in run(broker, "users", "add", "x", "--password-env", "NO_SUCH_NAME", code=1)
    both = ("--password-file", missing, "--password-env", "X")
    assert "give one of" in run(broker, "users", "add", "x", *both, code=1)


def test_expressions_are_as_many_as_kinds(broker: BrokerProcess) -> None:
    assert "give 3 expressions, configure, write, read, not 1" in run(broker, "permissions", "set", "x", ".*", code=1)
    refused = run(broker, "permissions", "set", "guest", "(?=x)", "", "", code=1)
    assert "configure permission of user 'guest' in vhost '/': RE2 refuses '(?=x)'" in refused
