"""Errors of the AMQP 1.0 client; the others are those of `penstock.client`."""

from penstock.client import ClientError
from penstock.wire.amqp10.composite import Composite


class EndedByBroker(ClientError):
    """Link, session or connection that the broker has ended; `condition` is empty if it gave no error."""

    def __init__(self, what: str, condition: str, text: str) -> None:
        super().__init__(what, condition, text)
        self.what = what
        self.condition = condition
        self.text = text

    def __str__(self) -> str:
        reason = " ".join(part for part in (self.text, self.condition and f"({self.condition})") if part)
        return f"the broker has ended the {self.what}: {reason or 'it gives no reason'}"


class Unreceivable(ClientError):
    """Message or address that no attempt can receive without a loss; the text is one sentence."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return self.text


def ended(what: str, performative: Composite) -> EndedByBroker:
    """Return the error for a detach, end or close."""
    error = performative.inner("error")
    if error is None:
        return EndedByBroker(what, "", "")
    return EndedByBroker(what, error.text("condition"), error.text("description"))
