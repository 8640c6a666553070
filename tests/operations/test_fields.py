"""Fields of control operations: those of the table are all that handlers read, and any other is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import penstock
from penstock.connections.control_request import IMPORT, PUBLISH_BLOCK
from penstock.content.properties import Properties
from penstock.operations.management_paths import PATHS
from penstock.operations.table import CONTROL, OPERATIONS
from penstock.protocols.amqp091.content_frames import body_of, make_content
from tests.ranges.test_refused_attach import Desk, Fields

READ = re.compile(r'request\.(?:text|number|amount|flag|names|offsets|starting|fields\.get)\(\s*"([^"]+)"')
OF_BLOCKS = {"row"}


def test_fields_that_handlers_read_are_in_the_table() -> None:
    root = Path(penstock.__file__).parent
    folders = (root / "management", root / "operations", root / "ranges")
    read = {name for each in folders for path in each.rglob("*.py") for name in READ.findall(path.read_text())}
    assert len(read) > 50
    routes = [route for row in OPERATIONS for route in row.routes]
    parts = {part for route in routes for path in route.paths for part in re.findall(r"{(\w+)}", path)}
    queries = {name for route in routes for name in (*route.query, *route.fixed)}
    bodies = {name for path in PATHS for name in path.body}
    assert read - OF_BLOCKS <= {name for row in OPERATIONS for name in row.fields} | parts | queries | bodies


@pytest.mark.parametrize("operation", sorted(CONTROL.keys() - {PUBLISH_BLOCK}))
def test_field_that_an_operation_does_not_have_is_refused(operation: str) -> None:
    desk = Desk()
    fields: Fields = {"definitions": "{}", "dru_run": True} if operation == IMPORT else {"xyzzy": 1}
    content = make_content(Properties(reply_to="answers"), json.dumps(fields).encode())
    desk.driver.control.request(desk.vhost, desk.connection, operation, content)
    while desk.driver.run_turn():
        pass
    answer = json.loads(body_of(desk.vhost.queues["answers"].ready_queue.messages()[-1].content))
    assert answer["code"] == 406, answer
    said = "'dru_run'; did you mean dry_run?" if operation == IMPORT else "'xyzzy'; known are "
    assert str(answer["text"]).startswith(f"{operation} has no field {said}")


def test_misspelt_field_is_refused_with_its_near_match() -> None:
    desk = Desk()
    answer = desk.ask("cursor.attach", {"cursor": "c", "queues": ["a"], "dryrun": True})
    assert answer["text"] == "cursor.attach has no field 'dryrun'; did you mean dry_run?"
    assert "c" not in desk.vhost.cursors
