"""Sentences for a login that failed."""

from __future__ import annotations

import pytest

from penstock.client.errors import FIRST_STEP, why_closed


@pytest.mark.parametrize(
    ("step", "code", "text", "words"),
    [
        ("an answer", 403, "no", "the broker refuses shop; check user, password and permissions (no)"),
        (FIRST_STEP, 501, "bad", "does not speak AMQP 0-9-1; check the port (bad)"),
        (FIRST_STEP, None, "end", "closed the connection at once: it is full, no AMQP broker, or needs amqps:// (end)"),
        ("the virtual host /", None, "end", "hung up where the virtual host / was due"),
        ("the virtual host /", 530, "NOT_ALLOWED - none", "none (530)"),
    ],
)
def test_reason_of_a_failed_login_names_the_check_to_make(step: str, code: int | None, text: str, words: str) -> None:
    assert words in why_closed("shop", step, code, text, is_encrypted=False)


def test_reason_of_an_encrypted_connection_does_not_ask_for_encryption() -> None:
    assert "amqps" not in why_closed("shop", FIRST_STEP, None, "end", is_encrypted=True)
