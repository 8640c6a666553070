"""Declarations, deletions and bindings: the same sentence and the same log line, whichever way they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.connections.topology import Asker, declare_queue
from penstock.driver.driver import BrokerDriver
from penstock.errors import BrokerError
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.access_of import access_of
from tests.support.amqp10_dialogue import Amqp10Dialogue
from tests.support.amqp10_management import ManagementClient
from tests.support.at_once import import_definitions
from tests.support.driven_connection import Dialogue, make_driver, refused
from tests.support.operation_calls import ask

Declare = Callable[[BrokerDriver, str, dict[str, Any]], str]
"""Function that declares a durable queue; returns the sentence of a refusal, or an empty text."""


def over_0_9_1(driver: BrokerDriver, name: str, arguments: dict[str, Any]) -> str:
    client = Dialogue(driver)
    frame = method_frame(1, spec.QUEUE_DECLARE, queue=name, durable=True, arguments=arguments)
    if name in ("amq.mine", "wrong"):
        return str(refused(client, frame)[2]).partition(" - ")[2]
    client.say(frame)
    return ""


def over_1_0(driver: BrokerDriver, name: str, arguments: dict[str, Any]) -> str:
    answer = ManagementClient(Amqp10Dialogue(driver)).ask("PUT", f"/queues/{name}", {"arguments": arguments})
    return "" if answer.status in (200, 201) else str(answer.body)


def over_http(driver: BrokerDriver, name: str, arguments: dict[str, Any]) -> str:
    fields = {"name": name, "durable": True, "arguments": arguments}
    try:
        ask(driver, "PUT /queues/{vhost}/{name}", fields, access=access_of(driver.broker, "guest"))
    except BrokerError as error:
        return str(error)
    return ""


def by_import(driver: BrokerDriver, name: str, arguments: dict[str, Any]) -> str:
    queue = {"name": name, "durable": True, "auto_delete": False, "arguments": arguments}
    import_definitions(driver, {"queues": [queue]})
    return ""


def by_kit(driver: BrokerDriver, name: str, arguments: dict[str, Any]) -> str:
    declare_queue(Asker(driver.broker, driver.services), driver.broker.vhost("/"), name, arguments, True)
    return ""


CLIENTS: tuple[Declare, ...] = (over_0_9_1, over_1_0, over_http)
"""Those who have permissions and are refused."""


@pytest.mark.parametrize("declare", [*CLIENTS, by_import, by_kit])
def test_argument_without_effect_is_logged_by_every_plane(declare: Declare) -> None:
    driver = make_driver()
    declare(driver, "orders", {"x-queue-mode": "lazy"})
    declare(driver, "others", {"x-queue-mode": "lazy"})
    assert driver.broker.vhost("/").queue("others").durable
    lines = [line for line in driver.log_queue.take() if line.fields.get("id") == "PST-2036"]
    assert [line.text for line in lines] == [
        "argument x-queue-mode of a queue has no effect: queues are stored in one way"
    ]


@pytest.mark.parametrize("declare", CLIENTS)
def test_reserved_name_is_refused_in_one_sentence(declare: Declare) -> None:
    driver = make_driver()
    assert declare(driver, "amq.mine", {}) == "queue name 'amq.mine' contains reserved prefix 'amq.*'"
    assert "amq.mine" not in driver.broker.vhost("/").queues


@pytest.mark.parametrize("declare", CLIENTS)
def test_invalid_argument_is_refused_in_one_sentence(declare: Declare) -> None:
    sentence = declare(make_driver(), "wrong", {"x-max-priority": 256})
    assert sentence == "queue 'wrong': x-max-priority must be a whole number from 0 to 255, not 256"


def test_exclusive_queue_is_locked_in_one_sentence() -> None:
    driver = make_driver()
    owner = Dialogue(driver)
    owner.say(method_frame(1, spec.QUEUE_DECLARE, queue="mine", exclusive=True))
    frame = method_frame(1, spec.QUEUE_DELETE, queue="mine")
    sentences = {str(refused(Dialogue(driver), frame)[2]).partition(" - ")[2]}
    sentences.add(str(ManagementClient(Amqp10Dialogue(driver)).ask("DELETE", "/queues/mine").body))
    access = access_of(driver.broker, "guest")
    for place in ("DELETE /queues/{vhost}/{name}", "DELETE /queues/{vhost}/{name}/contents"):
        with pytest.raises(BrokerError) as locked:
            ask(driver, place, {"name": "mine"}, access=access)
        sentences.add(str(locked.value))
    (sentence,) = sentences
    assert sentence.startswith("cannot obtain exclusive access to locked queue 'mine' in vhost '/'.")


def test_missing_queue_is_answered_as_each_plane_does() -> None:
    driver = make_driver()
    access = access_of(driver.broker, "guest")
    names = Dialogue(driver).names(method_frame(1, spec.QUEUE_DELETE, queue="none"))
    assert names == ["queue.delete-ok"]
    assert ManagementClient(Amqp10Dialogue(driver)).ask("DELETE", "/queues/none").body == {"message_count": 0}
    assert ask(driver, "DELETE /queues/{vhost}/{name}", {"name": "none"}, access=access) is None
    assert ask(driver, "DELETE /queues/{vhost}/{name}/contents", {"name": "none"}, access=access) is None
