"""Links that have credit and send nothing: others get their room within 0.1 s, whether a drain is answered or not."""

from __future__ import annotations

import pytest

from tests.support.amqp10_dialogue import Amqp10Dialogue, data_section

PLACES = 20


@pytest.mark.parametrize("answers", [True, False], ids=["drain is answered", "drain is not answered"])
def test_room_of_idle_links_is_with_another_connection_at_once(answers: bool) -> None:
    idle = Amqp10Dialogue().declare("q", capacity_messages=PLACES, stop_messages=PLACES, resume_messages=PLACES)
    room = idle.driver.broker.vhosts["/"].queues["q"].reserved
    handles = 0
    while room.messages < PLACES:
        idle.attach_sender("/queues/q", handles)
        handles += 1
    busy = Amqp10Dialogue(idle.driver, container_id="busy")
    busy.attach_sender("/queues/q")
    asked: set[int] = set()
    begun = idle.driver.broker.now
    for hundredth in range(1, 26):
        busy.listen(begun + hundredth / 100)
        idle.listen()
        for (_, handle), flow in idle.grants.items():
            if flow.field("drain") and handle not in asked:
                asked.add(handle)
                if answers:
                    idle.flow(handle, 0, delivery_count=flow.performative.number("link_credit"), drain=True)
    assert asked, "those beyond the share of their connection"
    assert busy.credit_of(0) > 0
    assert int(room.messages) + busy.depth("q") <= PLACES


def test_anonymous_links_that_are_idle_leave_credit_to_the_active_link() -> None:
    client = Amqp10Dialogue().declare("q")
    for handle in range(1000):
        client.attach_sender(None, handle)
    assert {client.credit_of(handle) for handle in range(1000)} == {1}
    client.attach_sender(None, 1000)
    to_q = b"\x00\x53\x73\xc0\x0e\x03\x40\x40\xa1\x09/queues/q" + data_section(b"x")
    sent = 0
    for _ in range(6):
        count = client.credit_of(1000)
        assert count > 0
        client.say(*(client.transfer(to_q, 1000) for _ in range(count)))
        sent += count
    assert client.depth("q") == sent > 20
