"""Links whose credit changes: each is reviewed and notified once, and very many take several turns."""

from __future__ import annotations

from penstock.core.publish import credit_line
from tests.support.broker_fixture import House
from tests.support.sender_links import Link, run_turn


def test_link_is_listed_once_for_any_number_of_requests() -> None:
    house = House("a")
    link = Link(house, "a")
    link.credit.schedule_review()
    link.credit.on_flow(3)
    assert house.broker.credits.pending()
    assert int(house.broker.credits.review()) == credit_line.REVIEW_WORK
    assert house.broker.credits.take_changed() == [link.credit]
    assert house.broker.credits.take_changed() == []


def test_very_many_links_are_reviewed_in_several_turns() -> None:
    house = House("a")
    links = [Link(house, "a") for _ in range(credit_line.REVIEWED_A_TURN + 1)]
    run_turn(house)
    assert [link.left > 0 for link in links].count(False) == 1
    assert house.broker.pending()
    run_turn(house)
    assert all(link.left > 0 for link in links)
