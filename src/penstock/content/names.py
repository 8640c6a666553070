"""Names of exchanges and queues, and routing keys: the longest one, and those of queues for answers.

AMQP 0-9-1 cannot carry a longer one (section 4.2.5.3), and neither can a row of the store. So a longer name is refused
where it enters the core, whatever protocol it comes from, and never cut.
"""

from __future__ import annotations

from typing import Final

from penstock.errors import PreconditionFailed
from penstock.limits import NAME_MAX

CC: Final = "CC"
BCC: Final = "BCC"
"""Headers with more routing keys of a message (RabbitMQ's sender-selected distribution); BCC is not delivered."""
CONTROL_REPLIES: Final = "amq.penstock.replies"
"""Name by which a client declares an exclusive queue for answers to control requests; it gets one of its own."""


def answers_control(name: str) -> bool:
    """Tell whether a name is that of a queue for answers to control requests.

    No policy and no limit of queues applies to them: who would change it could not hear the answer.
    """
    return name.startswith(CONTROL_REPLIES)


def is_name(text: str) -> bool:
    """Return whether a text is short enough for a name."""
    return len(text) <= NAME_MAX and (text.isascii() or len(text.encode(errors="replace")) <= NAME_MAX)


def check_name(what: str, name: str) -> None:
    """Raise PreconditionFailed (406) for a name that is too long; `what` says what it names."""
    if not is_name(name):
        octets = len(name.encode(errors="replace"))
        raise PreconditionFailed(f"{what} '{name[:60]}…' has {octets} octets; the most is {NAME_MAX}")
