"""The reason of a refused publish."""

from __future__ import annotations

from penstock.errors import ContentTooLarge
from penstock.flow.gate import DEADLINE, DELETED, NEVER_FITS, Gate, Refusal


def test_reason_made_on_request_names_the_gate() -> None:
    gate = Gate("queue", "q", [])
    assert Refusal("reject", gate).describe() == "queue 'q' lets nothing pass"
    assert Refusal(DELETED, gate).describe() == "queue 'q' was deleted"
    assert Refusal("reject", None).describe() == "the message was refused"


def test_text_that_was_given_comes_before_the_error_and_the_gate() -> None:
    error = ContentTooLarge("too large")
    assert Refusal(NEVER_FITS, Gate("queue", "q", []), error=error).describe() == "too large"
    assert Refusal(DEADLINE, None, "refused after 5 s", True, error).describe() == "refused after 5 s"
