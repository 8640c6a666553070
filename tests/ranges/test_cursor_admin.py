"""`cursor.show` and `cursor.move` as control operations: access, answers, and refusals without effect."""

from __future__ import annotations

import json

import pytest

from penstock.access.permission import Permission
from penstock.content.properties import Properties
from penstock.protocols.amqp091.content_frames import body_of, make_content
from tests.ranges import test_refused_attach
from tests.ranges.test_refused_attach import Fields
from tests.support.access_of import access_of


class Desk(test_refused_attach.Desk):
    """A desk that waits for answers which take turns."""

    def ask(self, operation: str, fields: Fields) -> dict[str, object]:
        answers = self.vhost.queues["answers"].ready_queue
        before = len(answers.messages())
        if operation != "cursor.move":
            return super().ask(operation, fields)
        content = make_content(Properties(reply_to="answers"), json.dumps(fields).encode())
        self.driver.control.request(self.vhost, self.connection, operation, content)
        while len(answers.messages()) == before:
            self.driver.run_turn()
        found: dict[str, object] = json.loads(body_of(answers.messages()[-1].content))
        return found

    def settled(self) -> dict[str, int]:
        return {name: int(each.settled) for name, each in self.vhost.cursors["c"].positions.items()}


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.ask("cursor.attach", {"cursor": "c", "queues": ["a", "b"]})
    desk.driver.run_turn()
    return desk


def test_move_of_a_cursor_in_use_is_refused_with_the_reader_or_forced(desk: Desk) -> None:
    refused = desk.ask("cursor.move", {"cursor": "c", "to": "latest"})
    assert refused["code"] == 405
    assert f"cursor 'c' is in use by {desk.connection.name()}" in str(refused["text"])
    assert "stop the query first" in str(refused["text"])
    assert desk.settled() == {"a": 0, "b": 0}
    answer = desk.ask("cursor.move", {"cursor": "c", "to": {"a": 4}, "force": True})
    assert desk.settled() == {"a": 4, "b": 0}
    assert answer["queues"] == [{"queue": "a", "from": 0, "to": 4, "messages": 4, "bytes": 40, "leaving": 4}]
    assert answer["sentences"] == [
        "queue a: from 0 to 4: 4 messages (40 bytes) are passed over, and 4 of them leave the queue"
    ]
    fenced = desk.ask("cursor.plan", {"cursor": "c", "token": 1, "start": {}})
    assert (fenced["name"], "moved by an operator" in str(fenced["text"])) == ("fenced", True)


def test_dry_run_of_a_move_reports_and_changes_nothing(desk: Desk) -> None:
    before = desk.seen()
    answer = desk.ask("cursor.move", {"cursor": "c", "to": "latest", "dry_run": True})
    assert desk.seen() == before
    assert answer["dry_run"] is True
    assert [each["messages"] for each in answer["queues"]] == [10, 10]  # type: ignore[attr-defined]
    assert "would be passed over, and 10 of them would leave the queue" in str(answer["sentences"])


def test_move_of_chosen_queues_and_back_where_another_cursor_holds_the_messages(desk: Desk) -> None:
    desk.ask("cursor.attach", {"cursor": "slow", "queues": ["a"]})
    desk.ask("cursor.move", {"cursor": "c", "to": "latest", "queues": ["a"], "force": True})
    assert desk.settled() == {"a": 10, "b": 0}
    answer = desk.ask("cursor.move", {"cursor": "c", "to": "earliest", "queues": ["a"], "force": True})
    assert desk.settled() == {"a": 0, "b": 0}
    assert "10 messages (100 bytes) are there to read again, by a reader with a new checkpoint" in str(answer)
    same = desk.ask("cursor.move", {"cursor": "c", "to": {"a": 0}, "force": True})
    assert same["sentences"] == ["queue a: from 0 to 0: nothing changes"]


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ({"cursor": "x", "to": "latest"}, 404, "no cursor 'x'"),
        ({"cursor": "c"}, 406, "needs a place to move to"),
        ({"cursor": "c", "to": {}}, 406, "needs a place to move to"),
        ({"cursor": "c", "to": "newest"}, 406, "earliest, latest or a sequence"),
        ({"cursor": "c", "to": {"a": 5, "b": 11}}, 406, "queue 'b' ends at 10"),
        ({"cursor": "c", "to": {"a": 5, "z": 1}}, 404, "does not read queue 'z'"),
        ({"cursor": "c", "to": {"a": -1}}, 406, "whole number"),
        ({"cursor": "c", "to": {"a": True}}, 406, "whole number"),
        ({"cursor": "c", "to": "latest", "queues": []}, 406, "at least one"),
        ({"cursor": "c", "to": "latest", "force": "yes"}, 406, "true or false"),
    ],
)
def test_refused_move_changes_nothing(desk: Desk, fields: Fields, code: int, text: str) -> None:
    before = desk.seen()
    refused = desk.ask("cursor.move", {"force": True, **fields})
    assert (refused.get("code"), text in str(refused.get("text"))) == (code, True), refused
    assert desk.seen() == before


def test_move_is_written_to_the_store(desk: Desk) -> None:
    journal = desk.driver.broker.journal
    journal.open.changes.clear()  # type: ignore[attr-defined]
    desk.ask("cursor.move", {"cursor": "c", "to": "latest", "force": True})
    assert len(journal.open.changes) == 1  # type: ignore[attr-defined]


def test_show_is_for_readers_and_names_producers_with_the_tag_monitoring_only(desk: Desk) -> None:
    shown = desk.ask("cursor.show", {"cursor": "c"})
    assert (shown["name"], shown["blocked_producers"]) == ("c", [])
    desk.driver.broker.access.put_user("reader", None, [])
    desk.driver.broker.access.set_permission("reader", "/", Permission(".*", ".*", ".*"))
    desk.connection.access = access_of(desk.driver.broker, "reader")
    shown = desk.ask("cursor.show", {"cursor": "c"})
    assert (shown["name"], "blocked_producers" in shown) == ("c", False)
    assert desk.ask("list", {"kind": "cursors"})["code"] == 403
    assert desk.ask("cursor.show", {"cursor": "x"})["code"] == 404
