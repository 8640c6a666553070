"""Services of the driver for a connection."""

from __future__ import annotations

from penstock.driver.driver import BrokerDriver
from tests.support.driven_connection import Dialogue, make_driver


def test_services_make_names_that_do_not_repeat_and_begin_as_asked() -> None:
    services = Dialogue(make_driver()).connection.services
    names = [services.make_name("amq.gen") for _ in range(100)]
    assert len(set(names)) == 100
    assert all(name.startswith("amq.gen-") and len(name) == len("amq.gen-") + 22 for name in names)


def test_services_refuse_a_login_for_people_to_read_and_take_a_right_one() -> None:
    services = Dialogue(make_driver()).connection.services
    assert services.password_check("guest", "guest", True).refusal() == ""
    assert services.password_check("guest", "wrong", True).refusal() != ""
    assert services.password_check("guest", "guest", False).refusal() != "", "guest only from this machine"


def test_services_say_once_that_an_argument_has_no_effect(driver: BrokerDriver) -> None:
    services = Dialogue(driver).connection.services
    driver.log_queue.take()
    for _ in range(3):
        services.log_without_effect("x-queue-mode has no effect")
    assert [line.text for line in driver.log_queue.take()] == ["x-queue-mode has no effect"]


def test_services_answer_for_logins_without_a_password() -> None:
    services = Dialogue(make_driver()).connection.services
    assert services.access_refusal("guest", True) == ""
    assert services.access_refusal("guest", False) != ""
    assert services.scram_keys("guest") == services.scram_keys("guest")
    nonces = {services.make_nonce() for _ in range(100)}
    assert len(nonces) == 100
    assert all(nonce.isascii() and nonce.isprintable() and "," not in nonce for nonce in nonces)
