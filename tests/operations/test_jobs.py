"""Imports and deletions as jobs: beside changes, detached, listed, cancelled, undone without harm to others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused, NotFound, PreconditionFailed
from penstock.management.jobs import CANCELLED, DONE, FAILED, RUNNING, WAITING, Job
from penstock.operations.vhosts import declare_vhost
from tests.support.access_of import access_of
from tests.support.driven_connection import make_driver
from tests.support.job_calls import Asker, start_counting, turn
from tests.support.operation_calls import ask

QUEUES = [{"vhost": "/", "name": f"q{number}", "durable": True} for number in range(2000)]
POLICY = {"name": "p", "pattern": "^q", "definition": {"max-length": 5}}
BROKEN = {"vhost": "/", "source": "none", "destination": "q1", "destination_type": "queue"}


def file_of(**sections: object) -> str:
    return json.dumps({"queues": QUEUES, **sections})


def job_of(driver: BrokerDriver, number: int) -> Job:
    return driver.jobs.of(number)


def imported_until(driver: BrokerDriver, job: Job, queues: int) -> None:
    """Make turns until an import has declared so many queues."""
    while len(driver.broker.vhosts["/"].queues) < queues:
        assert job.state == RUNNING
        turn(driver)


@pytest.fixture
def importing() -> Asker:
    return Asker(make_driver(), "imports")


@pytest.fixture
def operator(importing: Asker) -> Asker:
    return Asker(importing.driver)


def test_policy_is_set_while_an_import_runs(importing: Asker, operator: Asker) -> None:
    driver = importing.driver
    importing.send("definitions.import", definitions=file_of())
    for _ in range(20):
        turn(driver)
    assert 0 < len(driver.broker.vhosts["/"].queues) < len(QUEUES)
    operator.send("policy.set", **{**POLICY, "pattern": "^q1$"})
    turn(driver)
    assert [answer["name"] for answer in operator.answers()] == ["p"]
    assert not importing.answers()
    while not importing.answers():
        turn(driver)
    assert importing.answers()[0]["made"] == {"queues": len(QUEUES)}
    assert driver.broker.vhosts["/"].queues["q1"].settings.policies.definition() == {"max-length": 5}


def test_detached_import_is_answered_with_its_job_and_can_be_shown(importing: Asker) -> None:
    driver = importing.driver
    started = importing.ask("definitions.import", definitions=file_of(), detach=True)
    assert (started["id"], started["kind"], started["result"]) == (1, "definitions.import", None)
    assert not importing.client.connection.busy, "the connection does not wait for the job"
    imported_until(driver, job_of(driver, 1), 100)
    shown = importing.ask("job.show", id=1)
    assert (shown["state"], shown["subject"], shown["all"], shown["unit"]) == (
        RUNNING, "vhost '/'", len(QUEUES), "entries",
    )  # fmt: skip
    assert 0 < shown["done"] < len(QUEUES)
    while job_of(driver, 1).state == RUNNING:
        turn(driver)
    assert importing.ask("job.show", id=1)["result"]["made"] == {"queues": len(QUEUES)}
    assert len(importing.answers()) == 3, "a detached job sends no answer at its end"


def test_detached_import_that_fails_has_the_error_in_its_job(importing: Asker) -> None:
    driver = importing.driver
    importing.ask("definitions.import", definitions=file_of(bindings=[BROKEN]), detach=True)
    while job_of(driver, 1).state == RUNNING:
        turn(driver)
    shown = importing.ask("job.show", id=1)
    assert shown["state"] == FAILED
    assert shown["error"].startswith("line 1, bindings[0]: no exchange 'none'")
    assert not [name for name in driver.broker.vhosts["/"].queues if name.startswith("q")]
    assert len(importing.answers()) == 2


def test_cancelled_import_undoes_what_it_made(importing: Asker, operator: Asker) -> None:
    driver = importing.driver
    before = dict(driver.broker.vhosts["/"].queues)
    importing.send("definitions.import", definitions=file_of(vhosts=[{"name": "new"}]))
    turn(driver)
    imported_until(driver, job_of(driver, 1), 500)
    assert "new" in driver.broker.vhosts
    answer = operator.ask("job.cancel", id=1)
    assert answer["cancelled_by"] == "guest"
    while not importing.answers():
        turn(driver)
    (error,) = importing.answers()
    assert (error["code"], error["text"]) == (406, "cancelled by user 'guest'; nothing was imported")
    assert driver.broker.vhosts["/"].queues == before
    assert "new" not in driver.broker.vhosts
    assert job_of(driver, 1).state == CANCELLED


def undone(importing: Asker, operator: Asker, sections: dict[str, Any], *changes: tuple[str, dict[str, Any]]) -> str:
    """Import, make changes when the last queue is declared, and cancel; return the error of the import."""
    driver = importing.driver
    importing.send("definitions.import", definitions=file_of(**sections), everywhere=True)
    turn(driver)
    imported_until(driver, job_of(driver, 1), 1_000)
    for operation, fields in changes:
        operator.ask(operation, **fields)
    assert job_of(driver, 1).state == RUNNING
    operator.ask("job.cancel", id=1)
    while not importing.answers():
        turn(driver)
    return str(importing.answers()[0]["text"])


def test_undo_of_an_import_leaves_a_policy_set_since(importing: Asker, operator: Asker) -> None:
    policies = [{"vhost": "/", **POLICY}, {"vhost": "/", **POLICY, "name": "own"}]
    theirs = {**POLICY, "definition": {"max-length": 9}}
    text = undone(importing, operator, {"policies": policies}, ("policy.set", theirs))
    table = importing.driver.broker.table.policies
    assert [(each.name, each.definition) for each in table.of("/", False)] == [("p", {"max-length": 9})]
    assert text.endswith("undone, except for items in use: policy 'p' of vhost '/' (changed meanwhile)")


def test_undo_of_an_import_leaves_settings_set_since(importing: Asker, operator: Asker) -> None:
    settings = [
        {"scope": "queue", "pattern": "q.#", "settings": {"hold-deadline": 7}},
        {"scope": "queue", "pattern": "own.#", "settings": {"hold-deadline": 8}},
    ]
    theirs = {"scope": "queue", "pattern": "q.#", "settings": {"hold-deadline": 9}, "everywhere": True}
    text = undone(importing, operator, {"settings": settings}, ("settings.set", theirs))
    entries = [(each.pattern, each.command["hold-deadline"].raw) for each in importing.driver.broker.table.entries()]
    assert [raw for pattern, raw in entries if "q.#" in pattern] == [9]
    assert [pattern for pattern, _ in entries if "own.#" in pattern] == []
    assert "(changed meanwhile)" in text


def test_settings_of_an_import_extend_those_that_others_set_while_it_runs(importing: Asker, operator: Asker) -> None:
    driver = importing.driver
    users = [{"name": f"user{number}"} for number in range(200)]
    settings = [{"scope": "queue", "pattern": "q.#", "settings": {"hold-deadline": 7}} for _ in range(1)]
    many = [{"scope": "queue", "pattern": f"other{number}", "settings": {"expires": 5000}} for number in range(200)]
    text = json.dumps({"users": users, "settings": [*settings, *many]})
    importing.send("definitions.import", definitions=text)
    while driver.jobs.unfinished.get(1) is None or driver.jobs.of(1).done < 230:
        turn(driver)
    assert driver.jobs.of(1).done < 390, "its settings are read, and not in effect yet"
    operator.ask("settings.set", scope="queue", pattern="q.#", settings={"expires": 6000}, everywhere=True)
    while not importing.answers():
        turn(driver)
    (entry,) = [each for each in driver.broker.table.entries() if each.pattern == "q.#"]
    assert {name: value.raw for name, value in entry.command.items()} == {"expires": 6000, "hold-deadline": 7}


def test_undo_of_an_import_leaves_users_and_limits_changed_since(importing: Asker, operator: Asker) -> None:
    sections = {
        "users": [{"name": "anna", "tags": []}, {"name": "bea", "tags": []}],
        "permissions": [
            {"user": name, "vhost": "/", "configure": "", "write": "", "read": ""} for name in ("anna", "bea")
        ],
        "parameters": [{"vhost": "/", "component": "c", "name": "n", "value": 1}],
    }
    text = undone(
        importing, operator, sections,
        ("user.declare", {"name": "anna", "tags": ["monitoring"], "password_hash": ""}),
        ("permission.clear", {"user": "bea", "vhost": "/"}),
    )  # fmt: skip
    access = importing.driver.broker.access
    assert access.user("anna").tags == ["monitoring"]
    assert access.find("bea") is None
    assert importing.driver.broker.table.parameters.of("c") == []
    assert text.endswith("items in use: user 'anna' (changed meanwhile)")


def test_virtual_host_of_a_cancelled_import_stays_if_used_since(importing: Asker, operator: Asker) -> None:
    sections = {"vhosts": [{"name": "used"}, {"name": "empty"}]}
    driver = importing.driver
    importing.send("definitions.import", definitions=file_of(**sections), everywhere=True)
    turn(driver)
    imported_until(driver, job_of(driver, 1), 100)
    ask(driver, "policy.set", POLICY, vhost="used")
    operator.ask("job.cancel", id=1)
    while not importing.answers():
        turn(driver)
    assert importing.answers()[0]["text"].endswith("undone, except for items in use: vhost 'used'")
    assert sorted(driver.broker.vhosts) == ["/", "used"]


def test_second_import_into_a_virtual_host_waits_and_one_into_another_runs(importing: Asker, operator: Asker) -> None:
    driver = importing.driver
    declare_vhost(driver, "other")
    importing.ask("definitions.import", definitions=file_of(), detach=True)
    operator.ask("definitions.import", definitions=file_of(), detach=True)
    for _ in range(5):
        turn(driver)
    assert [job_of(driver, number).state for number in (1, 2)] == [RUNNING, WAITING]
    assert operator.ask("job.show", id=2)["reason"] == ("it waits for job 1 (definitions.import, vhost '/')")
    while driver.run_turn():
        pass
    assert [job_of(driver, number).state for number in (1, 2)] == [DONE, DONE]
    assert job_of(driver, 2).result == {
        "made": {}, "changed": {}, "not_imported": {}, "skipped": [], "overflow": [], "notes": [],
    }  # fmt: skip


class Deletion:
    """The deletion of a virtual host with many queues, detached."""

    def __init__(self, count: int = 1000) -> None:
        self.driver = make_driver()
        declare_vhost(self.driver, "large")
        self.vhost = self.driver.broker.vhosts["large"]
        for number in range(count):
            self.vhost.declare_queue(f"q{number}", {}, True, False, None, None)
        self.client = Asker(self.driver)
        self.started = self.client.ask("vhost.delete", name="large", detach=True)
        while self.job.done < 100:
            turn(self.driver)

    @property
    def job(self) -> Job:
        return self.driver.jobs.of(1)


def test_cancelled_deletion_leaves_an_open_virtual_host_with_the_other_queues() -> None:
    deletion = Deletion()
    assert deletion.vhost.deleting
    with pytest.raises(NotFound, match="no vhost 'large': job 1 deletes it"):
        deletion.driver.vhost("large")
    deletion.client.ask("job.cancel", id=1)
    while deletion.job.state == RUNNING:
        turn(deletion.driver)
    left = len(deletion.vhost.queues)
    assert 0 < left <= 900
    assert deletion.job.error == (
        f"cancelled by user 'guest': {1000 - left:,} of its 1,000 queues are deleted; vhost 'large' is open again"
    )
    assert deletion.driver.vhost("large") is deletion.vhost
    assert ask(deletion.driver, "policy.set", POLICY, vhost="large")["queues"] == left


def test_policy_that_is_being_set_when_a_deletion_ends_is_gone_with_its_virtual_host() -> None:
    driver = make_driver()
    for name in ("large", "other"):
        declare_vhost(driver, name)
    for number in range(3000):
        driver.broker.vhosts["other"].declare_queue(f"q{number}", {}, True, False, None, None)
    client, operator = Asker(driver), Asker(driver, "more")
    operator.send("settings.set", scope="queue", pattern="q.#", settings={"hold-deadline": 7}, everywhere=True)
    turn(driver)
    assert not operator.answers(), "the change of settings takes several turns"
    client.send("vhost.delete", name="large")
    while not client.answers():
        turn(driver)
    assert operator.answers(), "the end of the deletion waited for the change"
    assert "large" not in driver.broker.vhosts


def test_job_of_another_user_is_hidden_except_to_administrators() -> None:
    driver = make_driver()
    for name, tag in (("anna", "management"), ("bea", "management"), ("carl", "monitoring")):
        driver.broker.access.put_user(name, None, [tag])
    job = start_counting(driver, 10_000, user="anna")
    turn(driver)

    def asked(operation: str, user: str, **fields: object) -> Any:
        return ask(driver, operation, fields, access=access_of(driver.broker, user))

    assert [[row["id"] for row in asked("job.list", name)["jobs"]] for name in ("anna", "bea", "carl", "guest")] == [
        [1], [], [1], [1],
    ]  # fmt: skip
    for operation in ("job.show", "job.cancel"):
        with pytest.raises(NotFound, match="no job 1 of user 'bea'"):
            asked(operation, "bea", id=1)
    with pytest.raises(AccessRefused):
        asked("job.cancel", "carl", id=1)
    assert asked("job.show", "carl", id="1")["user"] == "anna"
    asked("job.cancel", "anna", id=1)
    turn(driver)
    assert job.state == CANCELLED
    assert [len(asked("job.list", "guest", state=state)["jobs"]) for state in (CANCELLED, RUNNING)] == [1, 0]


@pytest.mark.parametrize(
    ("operation", "fields", "error"),
    [
        ("job.show", {}, "'id' must be the number of a job, not null"),
        ("job.show", {"id": True}, "'id' must be the number of a job, not true"),
        ("job.cancel", {"id": "x"}, "'id' must be the number of a job, not 'x'"),
        (
            "job.list",
            {"state": "runing"},
            "'state' must be waiting, running, held, done, failed or cancelled, not 'runing'; did you mean running?",
        ),
    ],
)
def test_invalid_request_for_jobs_is_refused_in_one_sentence(
    driver: BrokerDriver, operation: str, fields: dict[str, object], error: str
) -> None:
    with pytest.raises(PreconditionFailed) as refused:
        ask(driver, operation, fields, access=access_of(driver.broker))
    assert str(refused.value) == error


def test_why_names_the_unfinished_jobs(importing: Asker, operator: Asker) -> None:
    driver = importing.driver
    importing.ask("definitions.import", definitions=file_of(), detach=True)
    operator.ask("definitions.import", definitions=file_of(), detach=True)
    imported_until(driver, job_of(driver, 1), 50)
    sentences = operator.ask("why")["sentences"]
    assert any(each.startswith("job 1 (definitions.import, vhost '/') is running; ") for each in sentences)
    waiting = "job 2 (definitions.import, vhost '/') is waiting; it waits for job 1"
    assert any(each.startswith(waiting) for each in sentences)
    assert not any("job" in each for each in operator.ask("why", queue="q1")["sentences"])
