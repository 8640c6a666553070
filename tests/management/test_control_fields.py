"""Fields of control operations: those of the table are all that handlers read, and any other is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import penstock.management
import penstock.ranges
from penstock.content.properties import Properties
from penstock.management.control_fields import FIELDS
from penstock.management.control_request import IMPORT, PUBLISH_BLOCK
from penstock.protocols.amqp091.content_frames import body_of, make_content
from tests.ranges.test_refused_attach import Desk, Fields

READ = re.compile(r'request\.(?:text|number|amount|flag|names|offsets|starting|fields\.get)\(\s*"([^"]+)"')
OF_BLOCKS = {"row"}


def test_fields_of_each_operation_are_in_the_table() -> None:
    assert {*FIELDS, PUBLISH_BLOCK} == set(Desk().driver.control.names())


def test_fields_that_handlers_read_are_in_the_table() -> None:
    folders = (Path(penstock.management.__file__).parent, Path(penstock.ranges.__file__).parent)
    read = {name for each in folders for path in each.rglob("*.py") for name in READ.findall(path.read_text())}
    assert len(read) > 50
    assert read - OF_BLOCKS <= {name for fields in FIELDS.values() for name in fields}


@pytest.mark.parametrize("operation", FIELDS)
def test_field_that_an_operation_does_not_have_is_refused(operation: str) -> None:
    desk = Desk()
    fields: Fields = {"definitions": "{}", "dru_run": True} if operation == IMPORT else {"xyzzy": 1}
    content = make_content(Properties(reply_to="answers"), json.dumps(fields).encode())
    desk.driver.control.request(desk.vhost, desk.connection, operation, content)
    while desk.driver.run_turn():
        pass
    answer = json.loads(body_of(desk.vhost.queues["answers"].ready_queue.messages()[-1].content))
    assert answer["code"] == 406, answer
    said = "'dru_run'; did you mean 'dry_run'?" if operation == IMPORT else "'xyzzy'; known are "
    assert str(answer["text"]).startswith(f"'{operation}' has no field {said}")


def test_misspelt_field_is_told_with_its_near_match_and_nothing_is_done() -> None:
    desk = Desk()
    answer = desk.ask("cursor.attach", {"cursor": "c", "queues": ["a"], "dryrun": True})
    assert answer["text"] == "'cursor.attach' has no field 'dryrun'; did you mean 'dry_run'?"
    assert "c" not in desk.vhost.cursors
