"""Commands on absent objects: exit code 1, or 0 with --if-exists."""

from __future__ import annotations

import pytest

from tests.support.brokers import BrokerProcess
from tests.support.commands import run, told


@pytest.mark.parametrize(
    ("words", "says", "accepted"),
    [
        (("purge", "NAME"), "no queue 'NAME'", "queue NAME does not exist"),
        (("unblock", "queue", "NAME"), "is not blocked", "queue NAME is not blocked"),
        (("unset", "queue", "NAME"), "NAME", "nothing is set for queue NAME"),
        (("policies", "clear", "NAME"), "no policy 'NAME'", "policy NAME does not exist"),
        (("users", "delete", "NAME"), "no user 'NAME'", "user NAME does not exist"),
        (("permissions", "clear", "NAME"), "NAME", "user NAME has no permission in this virtual host"),
        (("cursor", "release", "NAME", "q"), "no cursor 'NAME'", "cursor NAME does not exist"),
        (("connection", "close", "NAME"), "no connection 'NAME'", "connection NAME does not exist"),
        *(
            (("delete", kind, "NAME"), f"no {kind} 'NAME'", f"{kind} NAME does not exist")
            for kind in ("queue", "exchange", "cursor", "vhost")
        ),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else None,
)
def test_absent_object_is_an_error_unless_if_exists(
    broker: BrokerProcess, name: str, words: tuple[str, ...], says: str, accepted: str
) -> None:
    given = [name if word == "NAME" else word for word in words]
    refused = run(broker, *given, code=1)
    assert refused.startswith("penstock: ")
    assert says.replace("NAME", name) in refused
    assert run(broker, *given, "--if-exists") == accepted.replace("NAME", name) + "\n"


def test_json_answer_says_that_the_object_did_not_exist(broker: BrokerProcess, name: str) -> None:
    assert told(broker, "purge", name, "--if-exists") == {"queue": name, "existed": False}
    assert told(broker, "delete", "queue", name, "--if-exists") == {"queue": name, "deleted": False}
    run(broker, "declare", "queue", name)
    assert told(broker, "purge", name, "--if-exists") == {"queue": name, "purged": 0}
