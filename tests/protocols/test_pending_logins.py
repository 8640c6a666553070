"""Before the login: small frames, little memory, few sockets; and a neighbour gets in."""

from __future__ import annotations

import gc

from penstock.driver.driver import BrokerDriver
from penstock.protocols.common.connection import Connection
from penstock.protocols.common.connection_limits import ConnectionLimits
from penstock.protocols.common.engine import CLOSED_ENGINE
from penstock.protocols.common.peer import Peer, network_of
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import decode_method, method_frame
from penstock.wire.sasl import plain_response
from tests.support.driven_connection import Dialogue, cut, make_driver

GREETING = b"AMQP\x00\x00\x09\x01"
CLOSES = {"authentication_failure_close": True}


def stranger(driver: BrokerDriver, address: str = "10.0.0.1") -> Connection:
    return driver.connect(Peer(f"{address}:1", address.startswith("127.")))


def start_ok(password: str, **properties: object) -> bytes:
    return method_frame(
        0,
        spec.CONNECTION_START_OK,
        client_properties={"capabilities": CLOSES, **properties},
        mechanism="PLAIN",
        response=plain_response("guest", password),
    )


def closed_with(connection: Connection) -> tuple[int, str]:
    """Return code and text of the close that a connection sends."""
    _, _, payload = cut(connection.take_output())[-1]
    method = decode_method(payload)
    assert method.id == spec.CONNECTION_CLOSE
    return int(str(method.args["reply_code"])), str(method.args["reply_text"])


def lines(driver: BrokerDriver) -> list[str]:
    return [note.text for note in driver.take_log_lines()]


def test_a_frame_above_4096_octets_during_the_handshake_is_501() -> None:
    connection = stranger(make_driver())
    connection.receive(GREETING + start_ok("guest", product="x" * 4096))
    code, text = closed_with(connection)
    assert code == 501
    assert "is larger than the 4096 octets that it may have before connection.tune-ok" in text


def test_the_bound_of_the_handshake_is_seen_at_the_first_octets_of_a_frame() -> None:
    connection = stranger(make_driver())
    connection.receive(GREETING + b"\x01\x00\x00\x00\x01\x00\x00\x00")
    assert closed_with(connection)[0] == 501
    assert connection.engine.reader.unparsed == b""


def test_a_frame_of_4096_octets_is_taken_during_the_handshake() -> None:
    connection = stranger(driver := make_driver(), "127.0.0.1")
    connection.receive(GREETING)
    frame = start_ok("guest", product="")
    connection.receive(start_ok("guest", product="x" * (4096 - len(frame))))
    assert connection.logged_in
    assert driver.services.logins.count(connection.peer.network) == 0


def test_after_the_handshake_frames_are_as_large_as_was_agreed() -> None:
    dialogue = Dialogue(make_driver())
    names = dialogue.names(method_frame(1, spec.QUEUE_DECLARE, queue="q", arguments={"x-note": "n" * 6000}))
    assert names == ["queue.declare-ok"]


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
        left = [each for each in gc.get_objects() if isinstance(each, Connection)]
    finally:
        gc.enable()
    assert left == []
    assert driver.connections == {}
    assert driver.services.logins.count("this machine") == 0


def test_a_connection_that_is_lost_keeps_nothing_of_its_input() -> None:
    driver = make_driver()
    connection = stranger(driver)
    connection.receive(GREETING + start_ok("guest", product="x" * 2000)[:-20])
    engine = connection.engine
    assert len(engine.reader.unparsed) > 2000
    driver.disconnect(connection)
    assert engine.reader.unparsed == b""
    assert connection.engine is CLOSED_ENGINE
    assert len(connection.out) == 0


def test_sockets_of_an_address_that_do_not_log_in_are_bounded_and_the_newest_is_turned_away() -> None:
    policy = ConnectionLimits()
    policy.handshakes_address_max = 3
    driver = make_driver(policy)
    first = [stranger(driver) for _ in range(3)]
    late = stranger(driver)
    assert driver.services.logins.take_turned_away() == [late]
    other = stranger(driver, "10.0.0.2")
    local = stranger(driver, "127.0.0.1")
    assert driver.services.logins.take_turned_away() == []
    assert driver.services.logins.count(first[0].peer.network) == 3
    assert [driver.services.logins.count(each.peer.network) for each in (other, local)] == [1, 1]


def test_who_has_been_there_longer_than_a_login_takes_gives_way_to_a_newcomer() -> None:
    policy = ConnectionLimits()
    policy.handshakes_address_max = 3
    driver = make_driver(policy)
    first = [stranger(driver) for _ in range(3)]
    driver.begin(2.0)
    stranger(driver)
    stranger(driver)
    assert driver.services.logins.take_turned_away() == first[:2]


def test_where_all_places_are_taken_the_address_with_the_most_gives_one_up() -> None:
    policy = ConnectionLimits()
    policy.handshakes_max = 5
    driver = make_driver(policy)
    crowd = [stranger(driver, "10.0.0.9") for _ in range(5)]
    stranger(driver, "10.0.0.2")
    stranger(driver, "10.0.0.2")
    assert driver.services.logins.take_turned_away() == crowd[:2]
    assert driver.services.logins.count("10.0.0.2") == 2


def test_strangers_elsewhere_leave_the_places_of_this_machine_alone() -> None:
    policy = ConnectionLimits()
    policy.handshakes_max = 2
    driver = make_driver(policy)
    for index in range(20):
        stranger(driver, f"10.0.1.{index}")
    driver.services.logins.take_turned_away()
    operator = stranger(driver, "127.0.0.1")
    assert driver.services.logins.take_turned_away() == []
    operator.receive(GREETING + start_ok("guest"))
    assert operator.logged_in


def test_who_has_logged_in_or_is_lost_takes_no_place_any_more() -> None:
    policy = ConnectionLimits()
    policy.handshakes_address_max = 2
    driver = make_driver(policy)
    for _ in range(10):
        connection = stranger(driver, "127.0.0.1")
        connection.receive(GREETING + start_ok("guest"))
        driver.disconnect(stranger(driver, "127.0.0.1"))
    assert driver.services.logins.take_turned_away() == []
    assert len(driver.connections) == 10


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    assert network_of("2001:db8:1:2::5", False) == network_of("2001:db8:1:2:ffff::9", False) == "2001:db8:1:2::/64"
    assert network_of("2001:db8:1:3::5", False) != network_of("2001:db8:1:2::5", False)
    assert network_of("::ffff:10.0.0.1", False) == network_of("10.0.0.1", False) == "10.0.0.1"
    assert network_of("::1", True) == network_of("127.0.0.9", True) == "this machine"
    assert network_of("unknown", False) == "unknown"


def test_the_line_about_too_many_sockets_names_the_address_and_the_setting() -> None:
    policy = ConnectionLimits()
    policy.handshakes_address_max = 1
    driver = make_driver(policy)
    for _ in range(100):
        stranger(driver)
    assert lines(driver) == [
        "[con:2(@10.0.0.1:1/)] turned away: too many connections have not logged in "
        "(1 of its address, handshakes-address-max)"
    ]
