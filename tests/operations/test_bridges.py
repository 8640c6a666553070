"""Bridges by their operations: declared, shown, paused, resumed, restarted, deleted."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.access.permission import Permission
from penstock.access.user import User
from penstock.core.settings.table import Parameter
from penstock.driver.driver import BrokerDriver
from penstock.errors import NotFound, PreconditionFailed
from penstock.operations import vhosts
from penstock.operations.bridges import COMPONENTS
from penstock.operations.parameters import put_parameter
from tests.support.access_of import access_of
from tests.support.at_once import import_definitions
from tests.support.operation_calls import ask

SECRET = "s3cret"
SHOVEL = {"src-uri": "amqp://", "src-queue": "a", "dest-uri": f"amqp://u:{SECRET}@far", "dest-queue": "a"}
TARGET = f"amqp://carl:{SECRET}@far/v?queue=b"


def do(driver: BrokerDriver, operation: str, user: str = "guest", /, **fields: object) -> Any:
    access = access_of(driver.broker, user)
    return ask(driver, operation, {name.replace("_", "-"): each for name, each in fields.items()}, None, "/", access)


def add_user(driver: BrokerDriver, name: str, *tags: str) -> None:
    guest, user = User("guest", None, ["administrator"]), User(name, None, list(tags))
    for each in (guest, user):
        each.permissions = {"/": Permission(".*", ".*", ".*")}
        driver.broker.access.restore_user(each)


def stored(driver: BrokerDriver, component: str = "bridge", name: str = "b") -> Parameter:
    found = driver.broker.table.parameters.get(component, "/", name)
    assert found is not None
    return found


def test_bridge_is_declared_changed_and_deleted(driver: BrokerDriver) -> None:
    answer = do(driver, "bridge.declare", name="b", source="orders", target=TARGET, prefetch=5)
    assert (answer["created"], answer["state"], answer["user"]) == (True, "starting", "guest")
    assert (answer["source"], answer["target"]) == ("queue orders of this broker", "queue b of amqp://far/v")
    assert stored(driver).value == {"source": "amqp:///?queue=orders", "target": TARGET, "prefetch": 5}
    assert do(driver, "bridge.declare", name="b", source="bills", target=TARGET)["created"] is False
    assert stored(driver).value == {"source": "amqp:///?queue=bills", "target": TARGET}
    assert list(driver.bridges.wanted()) == ["bridge:/:b"]
    assert do(driver, "bridge.delete", name="b") == {}
    assert driver.bridges.wanted() == {}
    with pytest.raises(NotFound, match="no bridge 'b' in vhost '/'"):
        do(driver, "bridge.delete", name="b")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"target": TARGET}, "'source' is missing"),
        ({"source": "orders", "target": "orders"}, "queue orders of this broker would be carried onto itself"),
        ({"source": "orders", "target": f"amqp://u:{SECRET}@h:x"}, "'target' must be a URI of amqp or amqps"),
        ({"source": "orders", "target": TARGET, "prefetch": "x"}, "prefetch must be a whole number"),
    ],
)
def test_wrong_bridge_is_refused_and_not_stored(driver: BrokerDriver, fields: dict[str, Any], error: str) -> None:
    with pytest.raises(PreconditionFailed, match=error) as caught:
        do(driver, "bridge.declare", name="b", **fields)
    assert SECRET not in str(caught.value)
    assert driver.broker.table.parameters.of() == []


def test_paused_bridge_is_resumed_with_the_rights_of_who_resumes_it(driver: BrokerDriver) -> None:
    add_user(driver, "anna", "policymaker")
    do(driver, "bridge.declare", name="b", source="orders", target=TARGET)
    assert do(driver, "bridge.pause", "anna", name="b")["state"] == "paused"
    assert (stored(driver).run_as, driver.bridges.wanted()) == ("", {})
    with pytest.raises(PreconditionFailed, match="is paused: resume it"):
        do(driver, "bridge.restart", name="b")
    answer = do(driver, "bridge.resume", "anna", name="b")
    assert (answer["state"], answer["user"]) == ("starting", "anna")
    assert driver.bridges.wanted()["bridge:/:b"]["run_as"] == "anna"
    assert do(driver, "bridge.resume", name="b")["user"] == "guest"


def test_pause_and_resume_a_hundred_times_leaves_one_bridge_with_new_revisions(driver: BrokerDriver) -> None:
    do(driver, "bridge.declare", name="b", source="orders", target=TARGET)
    revisions = []
    for _ in range(100):
        do(driver, "bridge.pause", name="b")
        do(driver, "bridge.pause", name="b")
        do(driver, "bridge.resume", name="b")
        revisions.append(driver.bridges.wanted()["bridge:/:b"]["revision"])
    assert len(set(revisions)) == 100
    assert [each.name for each in driver.broker.table.parameters.of()] == ["b"]


def test_restart_gives_a_bridge_another_revision_and_keeps_its_user(driver: BrokerDriver) -> None:
    do(driver, "bridge.declare", name="b", source="orders", target=TARGET)
    before = driver.bridges.wanted()["bridge:/:b"]
    driver.bridges.report("bridge:/:b", {"state": "moving", "carried": 5}, 1.0)
    assert do(driver, "bridge.restart", name="b")["state"] == "starting"
    after = driver.bridges.wanted()["bridge:/:b"]
    assert after["revision"] != before["revision"]
    assert {**after, "revision": 0} == {**before, "revision": 0}


def test_bridges_of_one_name_are_chosen_by_component(driver: BrokerDriver) -> None:
    do(driver, "bridge.declare", name="n", source="orders", target=TARGET)
    put_parameter(driver, Parameter("shovel", "/", "n", SHOVEL))
    with pytest.raises(PreconditionFailed, match="several bridges have the name 'n'"):
        do(driver, "bridge.show", name="n")
    assert do(driver, "bridge.resume", name="n", component="shovel")["component"] == "shovel"
    assert stored(driver, "shovel", "n").run_as == "guest"
    with pytest.raises(PreconditionFailed, match="a bridge has no component 'shovle'; did you mean shovel"):
        do(driver, "bridge.show", name="n", component="shovle")
    with pytest.raises(NotFound):
        do(driver, "bridge.show", name="n", component="federation")
    assert COMPONENTS["federation"] == "federation-upstream"


def test_upstream_is_paused_and_resumed_with_all_its_links(driver: BrokerDriver) -> None:
    put_parameter(driver, Parameter("federation-upstream", "/", "up", {"uri": f"amqp://u:{SECRET}@far"}))
    assert do(driver, "bridge.show", name="up")["state"] == "paused"
    answer = do(driver, "bridge.resume", name="up")
    assert (answer["state"], answer["user"], answer["links"]) == ("unused", "guest", [])
    driver.broker.vhosts["/"].declare_queue("q", {}, True, False, None, None)
    do(driver, "policy.set", name="p", pattern="^q$", definition={"federation-upstream": "up"})
    [link] = do(driver, "bridge.show", name="up")["links"]
    assert (link["source"], link["target"]) == ("queue q of amqp://far/", "queue q of this broker")
    assert [spec["run_as"] for spec in driver.bridges.wanted().values()] == ["guest"]
    assert do(driver, "bridge.pause", name="up", component="federation")["state"] == "paused"
    assert driver.bridges.wanted() == {}


def test_definition_has_secrets_for_administrators_alone(driver: BrokerDriver) -> None:
    add_user(driver, "anna", "policymaker")
    do(driver, "bridge.declare", name="b", source="orders", target=TARGET)
    put_parameter(driver, Parameter("shovel", "/", "s", {**SHOVEL, "internal": True}))
    assert do(driver, "bridge.show", name="b")["value"]["target"] == TARGET
    assert do(driver, "bridge.show", "anna", name="b")["value"]["target"] == "amqp://far/v?queue=b"
    shown = do(driver, "bridge.show", "anna", name="s")
    assert shown["value"]["dest-uri"] == "amqp://far"
    assert [each.partition(":")[0] for each in shown["without_effect"]] == ["internal has no effect"]


def test_parameters_have_secrets_for_administrators_alone(driver: BrokerDriver) -> None:
    add_user(driver, "anna", "policymaker")
    put_parameter(driver, Parameter("shovel", "/", "s", SHOVEL))
    put_parameter(driver, Parameter("of-a-plugin", "/", "p", f"amqp://u:{SECRET}@far"))
    one = {"component": "shovel", "vhost": "/", "name": "s"}
    for operation, fields in (
        ("parameter.list", {}),
        ("GET /parameters/{component}/{vhost}/{name}", one),
        ("GET /parameters", {"component": "shovel"}),
    ):
        full, hidden = (do(driver, operation, user, **fields) for user in ("guest", "anna"))
        if operation == "parameter.list":
            full, hidden = (
                [row for row in each["parameters"] if row["component"] == "shovel"] for each in (full, hidden)
            )
        assert SECRET in str(full), operation
        assert SECRET not in str(hidden), operation
        assert str(full).replace(f"u:{SECRET}@", "") == str(hidden)
    assert SECRET not in str([row for row in do(driver, "list", kind="parameters")["items"] if row["name"] == "s"])


def test_import_brings_bridges_paused_and_says_how_to_resume_them(driver: BrokerDriver) -> None:
    entries: dict[str, Any] = {
        "parameters": [
            {"component": "shovel", "vhost": "/", "name": "s", "value": {**SHOVEL, "internal": True}},
            {"component": "federation-upstream", "vhost": "/", "name": "up", "value": {"uri": "amqp://far"}},
            {"component": "federation-upstream-set", "vhost": "/", "name": "set", "value": [{"upstream": "up"}]},
        ]
    }
    title = "parameter '{}' of component '{}' in vhost '/'"
    paused = "paused; `penstock bridges resume {}` runs it with your rights"
    plan = import_definitions(driver, entries, dry_run=True)
    notes = {row["name"]: row.get("note") for row in plan["differences"]}
    assert notes["up"] == paused.format("up")
    assert notes["s"].startswith(f"{paused.format('s')}; internal has no effect: ")
    assert notes["set"] is None
    assert {row["name"]: row["verdict"] for row in plan["differences"]} == {
        "s": "without effect", "up": "created", "set": "created",
    }  # fmt: skip
    found = import_definitions(driver, entries)
    assert found["notes"][:2] == [
        f"{title.format('s', 'shovel')}: {paused.format('s')}",
        f"{title.format('up', 'federation-upstream')}: {paused.format('up')}",
    ]
    assert driver.bridges.wanted() == {}
    do(driver, "bridge.resume", name="s")
    assert import_definitions(driver, entries)["notes"] == []
    assert list(driver.bridges.wanted()) == ["shovel:/:s"], "an import that changes nothing pauses nothing"
    entries["parameters"][0]["value"]["src-queue"] = "other"
    assert import_definitions(driver, entries)["changed"] == {"parameters": 1}
    assert driver.bridges.wanted() == {}


def test_bridge_of_a_file_with_a_wrong_key_is_refused_with_its_place(driver: BrokerDriver) -> None:
    entry = {"component": "shovel", "vhost": "/", "name": "s", "value": {**SHOVEL, "src-queu": "b"}}
    with pytest.raises(PreconditionFailed, match=r"parameters\[0\]: Validation failed: shovel 's': "):
        import_definitions(driver, {"parameters": [entry]})


def test_bridges_of_a_deleted_user_are_paused(driver: BrokerDriver) -> None:
    add_user(driver, "anna", "policymaker")
    do(driver, "bridge.declare", "anna", name="b", source="orders", target=TARGET)
    do(driver, "bridge.declare", name="other", source="orders", target=TARGET)
    do(driver, "user.delete", name="anna")
    assert stored(driver).run_as == ""
    assert list(driver.bridges.wanted()) == ["bridge:/:other"]
    add_user(driver, "anna", "policymaker")
    assert list(driver.bridges.wanted()) == ["bridge:/:other"], "another user of the name runs nothing of the former"


def test_deleted_virtual_host_takes_its_bridges_along(driver: BrokerDriver) -> None:
    vhosts.declare_vhost(driver, "eu")
    put_parameter(driver, Parameter("shovel", "eu", "s", SHOVEL, "guest"))
    assert list(driver.bridges.wanted()) == ["shovel:eu:s"]
    vhosts.delete_vhost(driver, "eu")
    assert driver.bridges.wanted() == {}
    assert driver.bridges.rows() == []


def test_changes_of_a_bridge_are_logged_with_their_author_and_without_secrets(driver: BrokerDriver) -> None:
    do(driver, "bridge.declare", name="b", source="orders", target=TARGET)
    for verb in ("pause", "pause", "resume", "delete"):
        do(driver, f"bridge.{verb}", name="b")
    path = "/parameters/{component}/{vhost}/{name}"
    given = {"component": "shovel", "vhost": "/", "name": "s"}
    for value in (SHOVEL, {**SHOVEL, "dest-queue": "c"}):
        do(driver, f"PUT {path}", **given, value=value)
    do(driver, f"DELETE {path}", **given)
    lines = [line.text for line in driver.log_queue.take()]
    changes = [("bridge 'b'", each) for each in ("declared", "paused", "resumed", "deleted")]
    changes += [("shovel 's'", each) for each in ("set", "changed", "deleted")]
    assert lines == [f"[vh(/)] {subject} {change} by guest over HTTP" for subject, change in changes]
