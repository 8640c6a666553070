"""Sentences for a login that failed, the same for every client of the package."""

from __future__ import annotations

from penstock.client.errors import without_name

FIRST_STEP = "an answer to the protocol header"
"""First step of a login, whose failures have causes of their own."""


def why_closed(user: str, step: str, code: int | str | None, text: str, *, is_encrypted: bool) -> str:
    """Return why the broker closed the connection where `step` was due."""
    from penstock.wire.amqp091.spec import ReplyCode  # A login over AMQP 1.0 that succeeds has no need of it.

    if code == ReplyCode.ACCESS_REFUSED:
        return f"the broker refuses {user}; check user, password and permissions ({text})"
    if step == FIRST_STEP and code is not None:
        return f"the server there does not speak AMQP 0-9-1; check the port ({text})"
    if step == FIRST_STEP:
        causes = "it is full, or no AMQP broker" if is_encrypted else "it is full, no AMQP broker, or needs amqps://"
        return f"the server there closed the connection at once: {causes} ({text})"
    if code is None:
        return f"the broker hung up where {step} was due; check user, password and virtual host ({text})"
    return f"{without_name(text)} ({code})"
