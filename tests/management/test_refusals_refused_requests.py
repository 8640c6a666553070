"""Refused requests in the log: the first of each connection and error, then a count."""

from __future__ import annotations

from penstock.errors import NotFound, PreconditionFailed
from penstock.management.refusals import RefusedRequests


def test_refused_requests_are_logged_once_for_each_error_and_then_counted() -> None:
    refused = RefusedRequests()
    first = refused.add(1, "con:1/ch:1", NotFound("no queue 'a'"), 0.0)
    assert first.text == "[con:1/ch:1] request refused: no queue 'a'"
    assert first.fields == {"id": "PST-2006", "subject": "con:1/ch:1", "error": "NOT_FOUND"}
    assert refused.add(1, "con:1/ch:1", PreconditionFailed("stop > capacity"), 0.0) is not None
    assert refused.add(2, "con:2/ch:1", NotFound("no queue 'a'"), 0.0) is not None
    assert [refused.add(1, "con:1/ch:2", NotFound(f"no queue '{number}'"), 1.0) for number in range(3)] == [None] * 3
    assert refused.take(59.0) == []
    (line,) = refused.take(60.0)
    assert line.text == "[con:1/ch:2] request refused: no queue '2' (the last of 3 since the last such line)"
    assert line.fields["count"] == 3
    assert refused.take(120.0) == []


def test_end_of_a_connection_logs_the_count_of_refusals() -> None:
    refused = RefusedRequests()
    for _ in range(3):
        refused.add(1, "con:1/ch:1", NotFound("no queue 'a'"), 0.0)
    (line,) = refused.forget(1)
    assert line.fields["count"] == 2
    assert refused.forget(1) == []
    assert refused.take(100.0) == []
    assert refused.add(1, "con:1/ch:1", NotFound("no queue 'a'"), 100.0) is not None
