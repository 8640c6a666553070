"""Connections and their shares of a turn: the load of one does not delay the others."""

import pytest

from penstock.core.vhost import ROUTE_WORK
from penstock.driver.driver import BrokerDriver
from penstock.flow.level import UNLIMITED
from penstock.flow.work import ASKING_SHARE, LOOKING_SHARE, SHARE, TURN, Steps
from penstock.wire.amqp091 import spec
from penstock.wire.amqp091.codec import method_frame
from tests.support.driven_connection import Dialogue, cut, make_driver, output_of, publish
from tests.support.input_shares import declarations, request, turn


def test_thousand_declarations_in_one_read_are_acted_on_share_by_share(driver: BrokerDriver) -> None:
    hog = Dialogue(driver)
    queues = driver.broker.vhosts["/"].queues
    driver.scheduler.receive(hog.connection, declarations(1000, "hog"))
    assert 0 < len(queues) <= SHARE // 16 + 1
    turns = 0
    while hog.connection.input_paused:
        assert turn(driver) < TURN + 2 * SHARE
        turns += 1
    assert len(queues) == 1000
    assert turns >= 1


def test_publishes_by_thousands_of_routing_keys_are_handled_share_by_share(driver: BrokerDriver) -> None:
    hog = Dialogue(driver)
    driver.scheduler.receive(hog.connection, b"".join(publish(f"k{number}", b"") for number in range(3000)))
    assert 0 < driver.broker.unroutable <= SHARE // ROUTE_WORK + 1
    while hog.connection.input_paused:
        turn(driver)
    assert driver.broker.unroutable == 3000


def test_work_outside_of_shares_is_charged_and_input_waits_for_the_next_turn(driver: BrokerDriver) -> None:
    hog = Dialogue(driver)
    hog.declare("q")
    driver.scheduler.begin_turn()
    done = hog.connection.work_done
    driver.scheduler.charge(hog.connection, TURN)
    driver.scheduler.receive(hog.connection, publish("q", b"later"))
    queue = driver.broker.vhosts["/"].queues["q"]
    assert hog.connection.work_done == done + TURN
    assert (queue.messages, hog.connection.input_paused, driver.scheduler.has_room()) == (0, True, False)
    driver.scheduler.begin_turn()
    turn(driver)
    assert (queue.messages, hog.connection.input_paused) == (1, False)


def test_publish_overtakes_waiting_input_of_another_connection(driver: BrokerDriver) -> None:
    hogs, victim = [Dialogue(driver) for _ in range(20)], Dialogue(driver)
    victim.declare("victim")
    for number, hog in enumerate(hogs):
        driver.scheduler.receive(hog.connection, declarations(1000, f"hog{number}."))
    for _ in range(2):
        turn(driver)
    driver.scheduler.receive(victim.connection, publish("victim", b"now"))
    queue = driver.broker.vhosts["/"].queues["victim"]
    assert queue.messages == 1 or victim.connection.in_line
    turn(driver)
    assert queue.messages == 1
    assert all(hog.connection.input_paused for hog in hogs)


def test_input_that_waits_for_its_share_is_handled_in_order(driver: BrokerDriver) -> None:
    hog, other = Dialogue(driver), Dialogue(driver)
    hog.declare("q")
    driver.broker.work.done += 2 * TURN  # The turn is used up.
    for number in range(5):
        driver.scheduler.receive(hog.connection, publish("q", b"%d" % number))
    assert driver.broker.vhosts["/"].queues["q"].messages == 0
    driver.scheduler.begin_turn()
    turn(driver)
    assert driver.broker.vhosts["/"].queues["q"].messages == 5
    driver.scheduler.receive(
        other.connection, method_frame(1, spec.BASIC_CONSUME, queue="q", consumer_tag="c", no_ack=True)
    )
    turn(driver)
    bodies = [payload for kind, _, payload in cut(output_of(other.connection)) if kind == spec.FRAME_BODY]
    assert bodies == [b"0", b"1", b"2", b"3", b"4"]


def test_connection_that_begins_while_the_turn_is_used_up_is_greeted_in_a_later_one(driver: BrokerDriver) -> None:
    opened = Dialogue(driver).connection
    fresh = driver.connect(opened.peer)
    driver.broker.work.done += 2 * TURN
    driver.scheduler.receive(fresh, b"AMQP\x00")
    driver.scheduler.receive(fresh, b"\x00\x09\x01")
    assert output_of(fresh) == b""
    driver.scheduler.begin_turn()
    turn(driver)
    assert [kind for kind, _, _ in cut(output_of(fresh))] == [spec.FRAME_METHOD]


def test_longest_turn_names_the_connection_that_cost_most(driver: BrokerDriver) -> None:
    hog, other = Dialogue(driver), Dialogue(driver)
    driver.scheduler.turn_times.end_turn(0.001, 1.0)
    driver.scheduler.receive(other.connection, method_frame(1, spec.CONFIRM_SELECT))
    driver.scheduler.receive(hog.connection, declarations(50, "q"))
    driver.scheduler.turn_times.end_turn(0.004, 2.0)
    driver.scheduler.turn_times.end_turn(0.002, 3.0)
    longest = driver.scheduler.turn_times.longest
    assert (longest.seconds, longest.connection) == (0.004, hog.connection.name())
    assert longest.work >= longest.connection_work >= 50 * 16
    driver.scheduler.turn_times.end_turn(0.003, 500.0)
    assert driver.scheduler.turn_times.recent().seconds == 0.003
    assert driver.scheduler.turn_times.longest.seconds == 0.004


def queues_of(driver: BrokerDriver, count: int) -> None:
    vhost = driver.broker.vhosts["/"]
    for number in range(count):
        vhost.declare_queue(f"q{number}", {}, False, False, None, None)
    driver.scheduler.begin_turn()


@pytest.mark.once
def test_settings_for_20000_queues_take_many_turns_and_delay_no_client(driver: BrokerDriver) -> None:
    operator, victim = Dialogue(driver), Dialogue(driver)
    victim.declare("victim", capacity_messages=5)
    queues_of(driver, 20_000)
    settings = {"scope": "queue", "pattern": "#", "settings": {"hold-deadline": 7}}
    driver.scheduler.receive(operator.connection, request("settings.set", **settings) + publish("victim", b"after"))
    turns = 0
    victims = driver.broker.vhosts["/"].queues["victim"]
    before = driver.broker.work.done
    while operator.connection.busy:
        driver.scheduler.receive(victim.connection, publish("victim", b"now") if turns < 3 else b"")
        driver.scheduler.serve()
        driver.run_turn()
        driver.scheduler.begin_turn()
        assert driver.broker.work.done - before < TURN + 2 * SHARE
        before = driver.broker.work.done
        turns += 1
        assert victims.messages == min(turns, 3), "published while the settings were being applied"
    assert turns > 50
    assert all(queue.settings.hold_deadline_s == 7 for queue in driver.broker.vhosts["/"].queues.values())
    turn(driver)
    assert victims.messages == 4, "what came after the request was acted on after it"


def test_impossible_change_of_settings_leaves_all_queues_unchanged() -> None:
    driver = make_driver()
    operator, other = Dialogue(driver), Dialogue(driver)
    queues_of(driver, 2_000)
    driver.broker.vhosts["/"].declare_queue("last", {"stop-messages": 50}, False, False, None, None)
    settings = {"scope": "queue", "pattern": "#", "settings": {"capacity-messages": 10}}
    driver.scheduler.receive(operator.connection, request("settings.set", **settings))
    turn(driver)
    other.connection.receive(declarations(1, "meanwhile"))
    queues = driver.broker.vhosts["/"].queues
    assert queues["meanwhile0"].thresholds.capacity.messages == 10
    while operator.connection.busy:
        turn(driver)
    assert {queue.thresholds.capacity.messages for queue in queues.values()} == {UNLIMITED}
    assert queues["last"].thresholds.stop.messages == 50


def test_connection_lost_during_a_change_leaves_the_settings_in_effect(driver: BrokerDriver) -> None:
    operator = Dialogue(driver)
    queues_of(driver, 2_000)
    settings = {"scope": "queue", "pattern": "#", "settings": {"hold-deadline": 7}}
    driver.scheduler.receive(operator.connection, request("settings.set", **settings))
    turn(driver)
    driver.disconnect(operator.connection)
    while driver.run_turn():
        driver.scheduler.begin_turn()
    assert {queue.settings.hold_deadline_s for queue in driver.broker.vhosts["/"].queues.values()} == {7}


def endless(driver: BrokerDriver) -> Steps[None]:
    while True:
        driver.broker.work.done += 10
        if driver.broker.work.used_up():
            yield


def test_jobs_that_only_read_have_a_smaller_share_of_a_turn_than_clients(driver: BrokerDriver) -> None:
    work = driver.broker.work
    driver.scheduler.start_asking(endless(driver))
    for _ in range(3):
        begun = work.done
        driver.scheduler.run_changes()
        assert ASKING_SHARE <= work.done - begun < ASKING_SHARE + 20
    assert ASKING_SHARE * 4 <= SHARE


def test_jobs_of_onlookers_are_no_part_of_a_turn_and_have_small_slices(driver: BrokerDriver) -> None:
    work = driver.broker.work
    driver.scheduler.start_looking(endless(driver))
    begun = work.done
    driver.run_turn(whole=False)
    assert work.done == begun
    for _ in range(3):
        begun = work.done
        assert not driver.scheduler.look()
        assert LOOKING_SHARE <= work.done - begun < LOOKING_SHARE + 20
    assert driver.scheduler.has_onlookers()
    assert not driver.scheduler.has_jobs()
    assert LOOKING_SHARE * 3 <= ASKING_SHARE


def test_onlooker_ends_in_the_slice_of_its_last_step(driver: BrokerDriver) -> None:
    asker = Dialogue(driver).connection

    def steps() -> Steps[None]:
        driver.broker.work.done += LOOKING_SHARE
        yield

    driver.scheduler.start_looking(steps(), asker)
    assert not driver.scheduler.look()
    assert asker.busy == 1
    assert driver.scheduler.look()
    assert asker.busy == 0
    assert not driver.scheduler.has_onlookers()
