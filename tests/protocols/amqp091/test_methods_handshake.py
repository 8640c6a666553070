"""The handshake: stored client properties, and failed logins without a trace."""

from __future__ import annotations

import gc

import pytest

from penstock.connections.connection import Connection
from penstock.driver.driver import BrokerDriver
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from tests.support.driven_connection import cut, make_driver, output_of
from tests.support.logging_in import CLOSES, GREETING, start_ok, stranger


def test_client_properties_of_known_names_are_stored() -> None:
    connection = stranger(make_driver(), "127.0.0.1")
    capabilities = {"basic.nack": True, "connection.blocked": 1, "mine": {"deep": [1, 2, 3]}}
    connection.receive(
        GREETING + start_ok("guest", product="p" * 600, version=["a", 2], secret="s", capabilities=capabilities)
    )
    assert connection.peer.properties == {
        "product": "p" * 255,
        "version": "['a', 2]",
        "capabilities": {"basic.nack": True, "connection.blocked": False},
    }
    assert connection.peer.properties["product"] == "p" * 255


def test_rates_in_client_properties_apply_to_the_channels_or_are_refused() -> None:
    connection = stranger(make_driver(), "127.0.0.1")
    connection.receive(GREETING + start_ok("guest", **{"producerMaxRate": 10, "rate-bytes": 1000}))
    rates = connection.peer.rates
    assert (rates.rate_messages, rates.rate_bytes) == (10.0, 1000.0)
    connection = stranger(make_driver(), "127.0.0.1")
    connection.receive(GREETING + start_ok("guest", producerMaxRate=0))
    close = decode_method(cut(output_of(connection))[-1][2])
    assert close.id == spec.CONNECTION_CLOSE
    assert close.args["reply_code"] == 530
    assert str(close.args["reply_text"]).startswith("NOT_ALLOWED - client: producerMaxRate must be a whole number")


def test_failed_login_leaves_no_object_in_memory(driver: BrokerDriver) -> None:
    gc.collect()
    others = {id(each) for each in gc.get_objects() if isinstance(each, Connection)}  # Of tests before this one.
    gc.disable()  # What only a look for cycles would find is left for long in a quiet broker.
    try:
        for _ in range(10):
            connection = stranger(driver, "127.0.0.1")
            connection.receive(GREETING + start_ok("wrong", product="x" * 2000) + bytes(100))
            driver.run_turn()
            connection.take_output()
            driver.take_pending_output()
            driver.disconnect(connection)
            del connection
        driver.begin(10.0)
        driver.run_turn()  # The delays of their answers are over.
        left = [each for each in gc.get_objects() if isinstance(each, Connection) and id(each) not in others]
    finally:
        gc.enable()
    assert left == []
    assert driver.connections == {}
    assert driver.services.logins.count("this machine") == 0


def offers(driver: BrokerDriver, subject: str = "", address: str = "127.0.0.1") -> tuple[Connection, str]:
    connection = stranger(driver, address)
    connection.peer.tls_subject = subject
    connection.receive(GREETING)
    start = decode_method(cut(output_of(connection))[0][2])
    return connection, bytes(start.args["mechanisms"]).decode()  # type: ignore[call-overload]


def choose(connection: Connection, mechanism: str, response: bytes = b"") -> str:
    """Choose a mechanism without a password; return the name of what the broker says."""
    properties = {"capabilities": CLOSES}
    connection.receive(
        method_frame(0, spec.CONNECTION_START_OK, client_properties=properties, mechanism=mechanism, response=response)
    )
    connection.broker.begin(connection.broker.now + 10)
    connection.services.dispatch_effects()
    return decode_method(cut(output_of(connection))[0][2]).name


def test_clients_are_offered_mechanisms_by_address_and_certificate() -> None:
    assert offers(make_driver())[1] == "PLAIN AMQPLAIN ANONYMOUS"
    assert offers(make_driver(), address="10.0.0.1")[1] == "PLAIN AMQPLAIN"
    assert offers(make_driver(), "guest", "10.0.0.1")[1] == "EXTERNAL PLAIN AMQPLAIN"


def test_certificate_logs_the_named_user_in(driver: BrokerDriver) -> None:
    driver.broker.access.put_user("ada", None, [])
    connection, _ = offers(driver, "ada", "10.0.0.1")
    assert choose(connection, "EXTERNAL") == "connection.tune"
    assert (connection.user, connection.logged_in) == ("ada", True)
    for subject in ("eve", ""):
        connection, _ = offers(driver, subject, "10.0.0.1")
        assert choose(connection, "EXTERNAL") == "connection.close"
        assert not connection.logged_in


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (b"ada", "connection.tune"),
        (b"\0*\0*", "connection.tune"),  # amqp091-go
        (b"eve", "connection.close"),
        (b"ada\0", "connection.close"),
        (b"\xff", "connection.close"),
    ],
)
def test_response_to_external_may_name_the_certificate_user_only(
    response: bytes, answer: str, driver: BrokerDriver
) -> None:
    for user in ("ada", "eve"):
        driver.broker.access.put_user(user, None, [])
    connection, _ = offers(driver, "ada", "10.0.0.1")
    assert choose(connection, "EXTERNAL", response) == answer
    assert connection.logged_in is (answer == "connection.tune")


def test_client_of_this_machine_may_be_anonymous_as_guest() -> None:
    connection, _ = offers(make_driver())
    assert choose(connection, "ANONYMOUS") == "connection.tune"
    assert connection.user == "guest"
    connection, _ = offers(make_driver(), address="10.0.0.1")
    assert choose(connection, "ANONYMOUS") == "connection.close"
