"""Moves, copies and redrives as jobs, on the control exchange."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.access.permission import Permission
from penstock.connections.control_request import ControlRequest
from penstock.content.properties import Properties
from penstock.core.consume.outcome import Outcome
from penstock.core.consume.session import Session
from penstock.core.message import Envelope
from penstock.driver.driver import BrokerDriver
from penstock.errors import AccessRefused
from penstock.operations.transfers import MOVE, Wanted
from penstock.protocols.amqp091.content_frames import body_of
from tests.support.access_of import access_of
from tests.support.job_calls import Asker, turn

MANY = 3_000


def declare(driver: BrokerDriver, name: str, **arguments: object) -> None:
    given = {key.replace("_", "-"): value for key, value in arguments.items()}
    driver.broker.vhosts["/"].declare_queue(name, given, False, False, None, None)


def put(driver: BrokerDriver, queue: str, *bodies: bytes, **headers: object) -> None:
    found = driver.broker.vhosts["/"].queues[queue]
    for body in bodies:
        content = driver.broker.formats.encode(Properties(headers=headers or None), body)
        found.enqueue(Envelope("", queue), content, 100, driver.broker.now)


def bodies(driver: BrokerDriver, queue: str) -> list[bytes]:
    """Return the bodies in a queue, in order."""
    messages = driver.broker.vhosts["/"].queues[queue].ready_queue.messages()
    return [bytes(body_of(each.content)) for each in sorted(messages, key=lambda each: each.sequence)]


def depth(driver: BrokerDriver, queue: str) -> int:
    return int(driver.broker.vhosts["/"].queues[queue].messages)


def reject(driver: BrokerDriver, queue: str, count: int = 1) -> None:
    """Reject the oldest messages of a queue."""
    session = Session()
    for number in range(count):
        batch = session.get(driver.broker.vhosts["/"].queues[queue], False, driver.broker.now)
        assert batch is not None
        session.unsettled.settle_tag(number + 1, False, Outcome.REJECTED, driver.broker.now)
    for _ in range(3):
        turn(driver)


def test_move_answers_with_the_number_of_messages(driver: BrokerDriver) -> None:
    declare(driver, "a")
    declare(driver, "b")
    put(driver, "a", b"1", b"2")
    answer = Asker(driver).ask("queue.move", queue="a", target="b")
    assert (answer["moved"], answer["left"], answer["why"], answer["target"]) == (2, 0, [], "queue 'b'")
    assert bodies(driver, "b") == [b"1", b"2"]
    assert depth(driver, "a") == 0


def test_long_move_ends_in_slices(driver: BrokerDriver) -> None:
    declare(driver, "a")
    declare(driver, "b")
    put(driver, "a", *[str(number).encode() for number in range(MANY)])
    asker = Asker(driver)
    asker.send("queue.move", queue="a", target="b")
    turns = 0
    while not asker.answers():
        turns += 1
        turn(driver)
    assert turns > 1
    assert bodies(driver, "b") == [str(number).encode() for number in range(MANY)]


def test_move_with_a_filter_takes_the_messages_that_match(driver: BrokerDriver) -> None:
    declare(driver, "a")
    declare(driver, "b")
    put(driver, "a", b"1", kind="bill")
    put(driver, "a", b"2", kind="note")
    put(driver, "a", b"3", kind="bill")
    answer = Asker(driver).ask("queue.move", queue="a", target="b", filter="kind = 'bill'")
    assert (answer["moved"], answer["unmatched"]) == (2, 1)
    assert bodies(driver, "b") == [b"1", b"3"]
    assert bodies(driver, "a") == [b"2"]


def test_copy_leaves_the_messages(driver: BrokerDriver) -> None:
    declare(driver, "a")
    declare(driver, "b")
    put(driver, "a", b"1", b"2")
    answer = Asker(driver).ask("queue.copy", queue="a", target="b", count=1)
    assert answer["copied"] == 1
    assert (bodies(driver, "a"), bodies(driver, "b")) == ([b"1", b"2"], [b"1"])


def test_move_to_an_exchange_publishes_the_messages_again(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    declare(driver, "a")
    declare(driver, "b")
    vhost.bind("amq.topic", vhost.queues["b"], None, "eu.#", {})
    put(driver, "a", b"1")
    answer = Asker(driver).ask("queue.move", queue="a", exchange="amq.topic", routing_key="eu.de")
    assert answer["moved"] == 1
    message = vhost.queues["b"].ready_queue.next()
    assert message is not None
    assert (message.envelope.exchange, message.envelope.routing_key) == ("amq.topic", "eu.de")


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"target": "a"}, 406, "queue 'a' cannot be moved onto itself"),
        ({"target": "none"}, 404, "no queue 'none' in vhost '/'"),
        ({"exchange": "amq.direct", "routing_key": "k"}, 404, "leads to no queue"),
        ({"exchange": "none", "routing_key": "k"}, 404, "no exchange 'none'"),
        ({"exchange": "", "routing_key": "a"}, 406, "leads back to queue 'a'"),
        ({"exchange": "penstock.control", "routing_key": "status"}, 406, "takes requests to the broker only"),
        ({}, 406, "name either 'target', a queue, or 'exchange'"),
        ({"target": "b", "exchange": ""}, 406, "both are given"),
        ({"target": "b", "count": 0}, 406, "'count' must be at least 1"),
        ({"target": "b", "count": -1}, 406, "'count'"),
        ({"target": "b", "count": "x"}, 406, "'count'"),
        ({"target": "b", "filter": "kind = "}, 406, "'filter' is not a selector"),
        ({"target": "b", "filtr": "x"}, 406, "filtr"),
    ],
)
def test_impossible_move_is_refused(driver: BrokerDriver, fields: dict[str, object], code: int, text: str) -> None:
    declare(driver, "a")
    declare(driver, "b")
    put(driver, "a", b"1")
    answer = Asker(driver).ask("queue.move", queue="a", **fields)
    assert answer["code"] == code
    assert text in answer["text"]
    assert depth(driver, "a") == 1
    assert not driver.jobs.all()


def test_move_needs_rights_for_both_queues(driver: BrokerDriver) -> None:
    vhost = driver.broker.vhosts["/"]
    declare(driver, "mine")
    declare(driver, "other")
    access = access_of(driver.broker, "guest")
    driver.broker.access.set_permission("guest", "/", Permission("", "mine", "mine"))
    for source, target in (("other", "mine"), ("mine", "other")):
        request = ControlRequest(vhost, None, access=access)
        request.fields = {"queue": source, "target": target}
        with pytest.raises(AccessRefused, match="other"):
            Wanted(driver, request, MOVE)


def test_full_target_holds_the_job_and_why_names_it(driver: BrokerDriver) -> None:
    declare(driver, "a")
    declare(driver, "b", capacity_messages=1)
    put(driver, "a", b"1", b"2")
    asker = Asker(driver)
    asker.send("queue.move", queue="a", target="b")
    for _ in range(5):
        turn(driver)
    [job] = driver.jobs.all()
    assert job.state == "held"
    assert "queue 'b'" in job.reason()
    other = Asker(driver, "other")
    for queue in ("a", "b"):
        sentences = other.ask("why", queue=queue)["sentences"]
        assert any(f"job {job.number} (queue.move, queue 'a' in vhost '/')" in each for each in sentences)
    assert any("move of job" in each for each in other.ask("why", queue="b")["sentences"])
    assert depth(driver, "b") == 1


def test_held_move_goes_on_when_the_target_has_room(driver: BrokerDriver) -> None:
    declare(driver, "a")
    declare(driver, "b", capacity_messages=1)
    put(driver, "a", b"1", b"2")
    asker = Asker(driver)
    asker.send("queue.move", queue="a", target="b")
    for _ in range(5):
        turn(driver)
    Session().get(driver.broker.vhosts["/"].queues["b"], True, driver.broker.now)
    for _ in range(5):
        turn(driver)
    [answer] = asker.answers()
    assert answer["moved"] == 2
    assert bodies(driver, "b") == [b"2"]


def test_detached_move_answers_with_its_job(driver: BrokerDriver) -> None:
    declare(driver, "a")
    declare(driver, "b")
    put(driver, "a", b"1")
    asker = Asker(driver)
    answer = asker.ask("queue.move", queue="a", target="b", detach=True)
    assert (answer["kind"], answer["state"]) == ("queue.move", "waiting")
    while driver.jobs.unfinished:
        turn(driver)
    assert asker.ask("job.show", id=answer["id"])["result"]["moved"] == 1


def test_second_move_of_a_queue_waits_for_the_first(driver: BrokerDriver) -> None:
    declare(driver, "a")
    declare(driver, "b", capacity_messages=1)
    declare(driver, "c")
    put(driver, "a", b"1", b"2", b"3")
    first, second = Asker(driver), Asker(driver, "second")
    first.send("queue.move", queue="a", target="b")
    second.send("queue.move", queue="a", target="c")
    for _ in range(5):
        turn(driver)
    moves = driver.jobs.all()
    assert [job.state for job in moves] == ["held", "waiting"]
    driver.jobs.cancel(moves[0], "guest")
    for _ in range(5):
        turn(driver)
    [cancelled], [moved] = first.answers(), second.answers()
    assert "1 of 3 messages are moved" in cancelled["text"]
    assert moved["moved"] == 2
    assert bodies(driver, "c") == [b"2", b"3"]


def dying(driver: BrokerDriver, *sources: str) -> None:
    """Declare a queue for dead letters, and queues whose rejected messages go there."""
    declare(driver, "dead")
    for name in sources:
        declare(driver, name, x_dead_letter_exchange="", x_dead_letter_routing_key="dead")


def test_redrive_returns_each_message_to_its_queue(driver: BrokerDriver) -> None:
    dying(driver, "x", "y")
    put(driver, "x", b"1")
    put(driver, "y", b"2")
    reject(driver, "x")
    reject(driver, "y")
    assert depth(driver, "dead") == 2
    answer = Asker(driver).ask("queue.redrive", queue="dead")
    assert (answer["redriven"], answer["left"]) == (2, 0)
    assert (bodies(driver, "x"), bodies(driver, "y")) == ([b"1"], [b"2"])
    message = driver.broker.vhosts["/"].queues["x"].ready_queue.next()
    assert message is not None
    assert (message.envelope.exchange, message.envelope.routing_key) == ("", "x")


def redrives(driver: BrokerDriver, queue: str) -> Any:
    message = driver.broker.vhosts["/"].queues[queue].ready_queue.next()
    assert message is not None
    return driver.broker.formats.find(message.content).headers(message.content)["x-redrive-count"]


def test_redrive_counts_in_a_header(driver: BrokerDriver) -> None:
    dying(driver, "x")
    put(driver, "x", b"1")
    asker = Asker(driver)
    for count in (1, 2, 3):
        reject(driver, "x")
        assert asker.ask("queue.redrive", queue="dead")["redriven"] == 1
        assert redrives(driver, "x") == count


def test_redrive_leaves_and_names_messages_whose_queue_is_gone(driver: BrokerDriver) -> None:
    dying(driver, "x", "y")
    put(driver, "x", b"1", b"2")
    put(driver, "y", b"3")
    reject(driver, "x", 2)
    reject(driver, "y")
    driver.broker.delete_queue(driver.broker.vhosts["/"].queues["x"])
    answer = Asker(driver).ask("queue.redrive", queue="dead")
    assert (answer["redriven"], answer["left"]) == (1, 2)
    assert answer["why"] == [
        {"reason": "queue 'x', in which they died, does not exist", "queue": "x", "messages": 2},
    ]
    assert bodies(driver, "dead") == [b"1", b"2"]


def test_redrive_leaves_death_headers_of_a_publisher(driver: BrokerDriver) -> None:
    dying(driver, "x")
    death = {"queue": "x", "reason": "rejected", "count": 1, "exchange": "in", "routing-keys": ["key"]}
    put(driver, "dead", b"forged", **{"x-death": [death]})
    asker = Asker(driver)
    answer = asker.ask("queue.redrive", queue="dead")
    assert (answer["redriven"], answer["left"]) == (0, 1)
    assert asker.ask("queue.redrive", queue="dead", trust_headers=True)["redriven"] == 1
    message = driver.broker.vhosts["/"].queues["x"].ready_queue.next()
    assert message is not None
    assert (message.envelope.exchange, message.envelope.routing_key) == ("in", "key")


def test_redrive_claims_the_queues_whose_letters_it_has(driver: BrokerDriver) -> None:
    dying(driver, "x")
    declare(driver, "full", capacity_messages=1)
    put(driver, "full", b"1")
    put(driver, "x", b"1", b"2")
    reject(driver, "x")
    first, second = Asker(driver), Asker(driver, "second")
    first.send("queue.move", queue="x", target="full")
    second.send("queue.redrive", queue="dead")
    for _ in range(5):
        turn(driver)
    assert [job.state for job in driver.jobs.all()] == ["held", "waiting"]


def test_move_from_a_queue_with_a_cursor_is_refused_and_a_copy_is_not(driver: BrokerDriver) -> None:
    declare(driver, "a")
    declare(driver, "b")
    put(driver, "a", b"1", b"2")
    asker = Asker(driver)
    asker.ask("cursor.attach", cursor="c", queues=["a"], starting="earliest", create=True)
    answer = asker.ask("queue.move", queue="a", target="b")
    assert answer["code"] == 406
    assert "cursor 'c'" in answer["text"]
    assert asker.ask("queue.copy", queue="a", target="b")["copied"] == 2
    assert bodies(driver, "b") == [b"1", b"2"]
    assert depth(driver, "a") == 2


def test_redrive_that_forgets_deaths_counts_the_next_one_as_the_first(driver: BrokerDriver) -> None:
    dying(driver, "x")
    put(driver, "x", b"1", trace="abc")
    asker = Asker(driver)
    for forgets, count in ((False, 1), (False, 2), (True, 3), (False, 1)):
        reject(driver, "x")
        message = driver.broker.vhosts["/"].queues["dead"].ready_queue.next()
        assert message is not None
        headers: dict[str, Any] = driver.broker.formats.find(message.content).headers(message.content)
        assert headers["x-death"][0]["count"] == count
        assert asker.ask("queue.redrive", queue="dead", forget_deaths=forgets)["redriven"] == 1
        back = driver.broker.vhosts["/"].queues["x"].ready_queue.next()
        assert back is not None
        assert back.envelope.died is not forgets
        names = set(driver.broker.formats.find(back.content).headers(back.content))
        kept = {"x-death", *(f"x-{a}-death-{b}" for a in ("first", "last") for b in ("exchange", "queue", "reason"))}
        assert names == {"trace", "x-redrive-count"} | (set() if forgets else kept)
