"""Authorization of HTTP requests by the table of operations, in RabbitMQ's words: 401 and the reason.

What a path does to queues and exchanges is checked where it is done, as over AMQP (protocols/common/authorization.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from penstock.access.rules import Rules
from penstock.access.tags import ADMINISTRATOR, MANAGEMENT, MONITORING, POLICYMAKER
from penstock.management.operation import ENTERED, SEEN, Need
from penstock.server.http.request import ApiRequest, HttpError, not_found

REASONS: Final = {
    MANAGEMENT: "Not management user",
    MONITORING: "Not monitor user",
    ADMINISTRATOR: "Not administrator user",
    POLICYMAKER: "User not authorised to access object",
}
"""RabbitMQ's words for a missing tag."""
NO_VHOST: Final = "User not authorised to access virtual host"
NO_OBJECT: Final = "User not authorised to access object"


def not_authorised(reason: str) -> HttpError:
    """Return the error for a user that may not do this. Without a challenge, so that no browser asks for a password."""
    return HttpError(401, "not_authorised", reason)


def refusal_of(rules: Rules, need: Need, parts: Mapping[str, str]) -> HttpError | None:
    """Return why a request is refused by its tag or its virtual host; None if it is not.

    `parts` are the parts of the path as they were sent.
    """
    for tag in (MANAGEMENT, need.tag):
        if not rules.has_tag(tag):
            return not_authorised(REASONS[tag])
    if "vhost" not in parts or need.vhost not in (ENTERED, SEEN) or rules.has_tag(ADMINISTRATOR):
        return None
    if need.vhost == SEEN and rules.has_tag(MONITORING):
        return None
    return None if rules.enters(unquote(parts["vhost"])) else not_authorised(NO_VHOST)


def check_own(request: ApiRequest, user: str, tag: str = MONITORING) -> None:
    """Check that what a request is about belongs to its user, or that it has a tag. Raises HttpError (401)."""
    if user != request.user and not request.rules.has_tag(tag):
        raise not_authorised(NO_OBJECT)


def found_or_hidden(request: ApiRequest) -> HttpError:
    """Return the error for a connection or channel that is not there: it says so only to those who may see all."""
    return not_found() if request.rules.has_tag(MONITORING) else not_authorised(NO_OBJECT)
