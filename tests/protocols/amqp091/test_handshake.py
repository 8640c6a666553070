"""The handshake: what is kept of a client, and what a failed login leaves."""

from __future__ import annotations

import gc

from penstock.protocols.common.connection import Connection
from tests.support.driven_connection import make_driver
from tests.support.logging_in import GREETING, start_ok, stranger


def test_of_what_a_client_says_about_itself_only_known_names_are_kept() -> None:
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


def test_nothing_is_left_in_memory_of_a_failed_login() -> None:
    driver = make_driver()
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
