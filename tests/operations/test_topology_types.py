"""Types of queues on all planes: the same declarations, refusals and names in lists, and a virtual host's default."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from penstock.core.queue.pager import without_disk
from penstock.core.queue.types import AUTO_DELETE, CLASSIC, EXCLUSIVE, NON_DURABLE, QUORUM, TYPES, QueueType
from penstock.describe.queue import QUEUE
from penstock.describe.table import Reading
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.access_of import access_of
from tests.support.amqp10_dialogue import Amqp10Dialogue
from tests.support.amqp10_management import ManagementClient
from tests.support.at_once import import_definitions
from tests.support.driven_connection import Dialogue, make_driver, methods
from tests.support.operation_calls import ask


class Flags(NamedTuple):
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False


Declare = Callable[[BrokerDriver, Flags, dict[str, Any]], str]
"""Function that declares queue q; returns the sentence of a refusal, or an empty text."""
HTTP = "PUT /queues/{vhost}/{name}"


def over_0_9_1(driver: BrokerDriver, flags: Flags, arguments: dict[str, Any]) -> str:
    frame = method_frame(1, spec.QUEUE_DECLARE, queue="q", arguments=arguments, **flags._asdict())
    (answer,) = methods(Dialogue(driver).say(frame))
    return "" if answer.name == "queue.declare-ok" else str(answer.args["reply_text"]).partition(" - ")[2]


def over_1_0(driver: BrokerDriver, flags: Flags, arguments: dict[str, Any]) -> str:
    body = {**flags._asdict(), "arguments": arguments}
    answer = ManagementClient(Amqp10Dialogue(driver)).ask("PUT", "/queues/q", body)
    return "" if answer.status in (200, 201) else str(answer.body)


def over_http(driver: BrokerDriver, flags: Flags, arguments: dict[str, Any]) -> str:
    fields = {"name": "q", "durable": flags.durable, "auto_delete": flags.auto_delete, "arguments": arguments}
    try:
        ask(driver, HTTP, fields, access=access_of(driver.broker, "guest"))
    except BrokerError as error:
        return str(error)
    return ""


def by_import(driver: BrokerDriver, flags: Flags, arguments: dict[str, Any]) -> str:
    queue = {"name": "q", "durable": flags.durable, "auto_delete": flags.auto_delete, "arguments": arguments}
    try:
        import_definitions(driver, {"queues": [queue]})
    except BrokerError as error:
        text = str(error)
        return text[text.index("queue 'q': ") :].removesuffix("; nothing was imported")
    return ""


PLANES: dict[str, Declare] = {"0-9-1": over_0_9_1, "1.0": over_1_0, "HTTP": over_http, "import": by_import}
EVERY_FLAG = [Flags(*flags) for flags in itertools.product((True, False), repeat=3)]
TOY = QueueType("toy", "toy_queues", refused_flags=(AUTO_DELETE,), refused_arguments=("x-max-priority",))


def refusals(flags: Flags, arguments: dict[str, Any]) -> dict[str, str]:
    """Return the sentence of each plane that has the flags, each on a broker of its own."""
    planes = {name: plane for name, plane in PLANES.items() if not flags.exclusive or name in ("0-9-1", "1.0")}
    return {name: plane(make_driver(), flags, arguments) for name, plane in planes.items()}


def listed_type(driver: BrokerDriver, queue: str = "q") -> object:
    return QUEUE.row(driver.broker.vhost("/").queues[queue], Reading(0.0), QUEUE.select(["type"]))["type"]


def accepted(row: QueueType) -> str:
    """Return the answer to a valid declaration: a stream is refused by a broker without a disk."""
    return str(without_disk("q", True)) if row.retains else ""


@pytest.mark.parametrize("flags", EVERY_FLAG, ids=str)
@pytest.mark.parametrize("row", [*TYPES.values(), TOY], ids=lambda row: row.name)
def test_type_refuses_flags_in_one_sentence_on_every_plane(
    monkeypatch: pytest.MonkeyPatch, row: QueueType, flags: Flags
) -> None:
    monkeypatch.setitem(TYPES, row.name, row)
    durable = flags.durable and not flags.exclusive
    given = [(not durable, NON_DURABLE), (flags.auto_delete, AUTO_DELETE), (flags.exclusive, EXCLUSIVE)]
    wrong = [flag for there, flag in given if there and flag in row.refused_flags]
    expected = f"queue 'q': invalid property '{wrong[0]}' for a queue of type {row.name}" if wrong else accepted(row)
    found = refusals(flags, {"x-queue-type": row.name})
    assert found == dict.fromkeys(found, expected)


@pytest.mark.parametrize("row", [*TYPES.values(), TOY], ids=lambda row: row.name)
def test_type_refuses_arguments_in_one_sentence_on_every_plane(monkeypatch: pytest.MonkeyPatch, row: QueueType) -> None:
    monkeypatch.setitem(TYPES, row.name, row)
    for name in {name for each in TYPES.values() for name in each.refused_arguments}:
        value = 5 if name == "x-max-priority" else "default"
        refused = row.refuses(name)
        expected = f"queue 'q': invalid arg '{name}' for a queue of type {row.name}" if refused else accepted(row)
        found = refusals(Flags(), {"x-queue-type": row.name, name: value})
        assert found == dict.fromkeys(found, expected)


@pytest.mark.parametrize(
    ("kind", "rest"),
    [
        ("lazy", "x-queue-type must be classic, quorum or stream, not 'lazy'"),
        (5, "x-queue-type must be classic, quorum or stream, not 5"),
    ],
)
def test_type_that_does_not_exist_is_refused_in_one_sentence_on_every_plane(kind: object, rest: str) -> None:
    found = refusals(Flags(), {"x-queue-type": kind})
    assert found == dict.fromkeys(PLANES, f"queue 'q': {rest}")


@pytest.mark.parametrize("plane", PLANES)
def test_toy_type_is_declared_and_listed_by_its_name(monkeypatch: pytest.MonkeyPatch, plane: str) -> None:
    monkeypatch.setitem(TYPES, TOY.name, TOY)
    driver = make_driver()
    assert PLANES[plane](driver, Flags(), {"x-queue-type": "toy"}) == ""
    assert listed_type(driver) == "toy"
    assert PLANES[plane](driver, Flags(), {"x-queue-type": "toy"}) == ""
    different = "inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received 'classic' but current is 'toy'"
    assert over_0_9_1(driver, Flags(), {}).startswith(different)


def test_toy_type_is_a_kind_of_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TYPES, TOY.name, TOY)
    driver = make_driver()
    over_0_9_1(driver, Flags(), {"x-queue-type": "toy"})
    for apply_to in ("toy_queues", "classic_queues"):
        definition = {"pattern": "^q$", "definition": {"max-length": 5}, "apply-to": apply_to}
        ask(driver, "policy.set", {"name": apply_to, **definition}, access=access_of(driver.broker, "guest"))
    assert driver.broker.vhost("/").queues["q"].settings.policies.name() == "toy_queues"


# The default type of a virtual host


def with_default(kind: str) -> BrokerDriver:
    driver = make_driver()
    fields = {"name": "/", "default_queue_type": kind}
    ask(driver, "PUT /vhosts/{vhost}", fields, access=access_of(driver.broker, "guest"))
    return driver


@pytest.mark.parametrize("plane", PLANES)
def test_default_type_of_a_vhost_is_the_type_of_durable_queues_without_one(plane: str) -> None:
    driver = with_default("quorum")
    assert PLANES[plane](driver, Flags(), {}) == ""
    queue = driver.broker.vhost("/").queues["q"]
    assert (queue.features.type, queue.arguments["x-queue-type"], listed_type(driver)) == (QUORUM, "quorum", "quorum")
    assert PLANES[plane](driver, Flags(), {}) == ""
    assert PLANES[plane](driver, Flags(), {"x-queue-type": "quorum"}) == ""


@pytest.mark.parametrize("plane", PLANES)
def test_queue_that_the_default_type_cannot_be_is_classic(plane: str) -> None:
    driver = with_default("quorum")
    assert PLANES[plane](driver, Flags(auto_delete=True), {}) == ""
    assert driver.broker.vhost("/").queues["q"].features.type is CLASSIC


def test_default_type_that_does_not_exist_is_refused_for_a_vhost() -> None:
    with pytest.raises(BrokerError) as refused:
        with_default("lazy")
    assert str(refused.value) == "vhost '/': default_queue_type must be classic, quorum or stream, not 'lazy'"


def test_dry_run_knows_the_default_type_of_a_vhost_of_the_file() -> None:
    driver = make_driver()
    queue = {"name": "q", "vhost": "eu", "durable": True, "arguments": {"x-max-priority": 5}}
    for default, change in (("classic", "created"), ("quorum", "refused")):
        vhost = {"name": "eu", "metadata": {"default_queue_type": default}}
        found = import_definitions(driver, {"vhosts": [vhost], "queues": [queue]}, None, dry_run=True)
        found_changes = [each["change"] for each in found["differences"]]
        assert found_changes == sorted(["created", change], reverse=True)


def test_type_of_an_imported_queue_is_stronger_than_the_default_type() -> None:
    driver = with_default("quorum")
    queue = {"name": "q", "vhost": "/", "durable": True, "type": "classic"}
    import_definitions(driver, {"queues": [queue]}, None)
    assert listed_type(driver) == "classic"
    assert import_definitions(driver, {"queues": [queue]}, None, dry_run=True)["differences"] == []


def test_exported_queue_keeps_its_type_under_another_default_type() -> None:
    driver = make_driver()
    over_0_9_1(driver, Flags(), {})
    (queue,) = ask(driver, "definitions.export", {"section": "queues"})["items"]
    assert queue["type"] == "classic"
    other = with_default("quorum")
    import_definitions(other, {"queues": [queue]}, None)
    assert listed_type(other) == "classic"
