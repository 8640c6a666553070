"""Connections that are the only one of their container: refused, or the existing one closed."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp10 import spec
from penstock.wire.amqp10.values import Symbol, Typed
from tests.support.amqp10_dialogue import Amqp10Dialogue, Heard, condition, names, performative

DETECTION = Symbol("sole-connection-detection-policy")


def opened(driver: BrokerDriver, policy: int | None = None, asks: bool = True, **fields: object) -> Amqp10Dialogue:
    properties = {} if policy is None else {Symbol("sole-connection-enforcement-policy"): Typed("uint", policy)}
    wanted = ["sole-connection-for-container"] if asks else None
    return Amqp10Dialogue(
        driver, session=False, desired_capabilities=wanted, properties=properties, **{"container_id": "one", **fields}
    )


def info(heard: Heard) -> dict[str, object]:
    error = heard.performative.inner("error")
    return {str(key): value for key, value in error.mapping("info").items()}


def test_second_connection_of_a_container_is_refused(driver: BrokerDriver) -> None:
    first = opened(driver)
    assert first.opened[0].performative.mapping("properties")[DETECTION] == Typed("uint", 1)
    for policy in (None, 0, 7):
        open_, close = opened(driver, policy).opened
        assert open_.performative.mapping("properties") == {Symbol("amqp:connection-establishment-failed"): True}
        assert condition(close) == "amqp:invalid-field"
        assert info(close) == {"invalid-field": Symbol("container-id")}
    assert names(first.begin(0)) == ["begin"], "the first one stays"


def test_existing_connection_is_closed_if_the_new_open_asks(driver: BrokerDriver) -> None:
    first = opened(driver)
    second = opened(driver, 1)
    assert names(second.opened) == ["open"]
    (close,) = first.listen()
    assert (close.name, condition(close)) == ("close", "amqp:resource-locked")
    assert info(close) == {"sole-connection-enforcement": True}
    assert names(opened(driver).opened) == ["open", "close"], "the second one is the sole connection now"


def test_container_is_free_again_after_the_connection_has_ended(driver: BrokerDriver) -> None:
    opened(driver).say(performative(spec.CLOSE))
    second = opened(driver)
    assert names(second.opened) == ["open"]
    second.connection.end()
    assert names(opened(driver).opened) == ["open"]


def test_connections_of_another_container_or_host_are_not_concerned(driver: BrokerDriver) -> None:
    driver.broker.add_vhost("other")
    opened(driver)
    for fields in ({"container_id": "two"}, {"hostname": "other"}, {"asks": False}):
        assert names(opened(driver, **fields).opened) == ["open"]  # type: ignore[arg-type]


def test_connection_of_another_user_is_not_closed(driver: BrokerDriver) -> None:
    first = opened(driver)
    first.connection.user = "somebody"
    assert names(opened(driver, 1).opened) == ["open", "close"]
    assert first.listen() == []
