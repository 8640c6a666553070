"""Replies as JSON, encoded in steps."""

from __future__ import annotations

import json

from penstock.flow.work import WorkMeter, finish
from penstock.management.json_reader import text_steps


def test_answer_in_steps_is_the_text_of_the_answer_at_once() -> None:
    answer: dict[str, object] = {"a": list(range(1000)), 'b"': [], "c": {"d": [None, "é"]}, "e": [[1], [2]], "f": None}
    assert finish(text_steps(answer, WorkMeter())) == json.dumps(answer).encode()
    assert finish(text_steps({}, WorkMeter())) == b"{}"
