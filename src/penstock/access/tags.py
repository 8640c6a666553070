"""Tags of users: what they may see and do beside messages, as in RabbitMQ (its management guide, "Permissions")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

ADMINISTRATOR: Final = "administrator"
"""Everything: users, permissions, virtual hosts, settings, and what the other tags permit."""
MONITORING: Final = "monitoring"
"""The whole node is seen: all connections, channels and virtual hosts; and what the tag management permits."""
POLICYMAKER: Final = "policymaker"
"""Policies and parameters are changed; and what the tag management permits."""
MANAGEMENT: Final = "management"
"""The HTTP API is used, for what the user can do over AMQP."""
TAGS: Final = (ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT)
"""Tags with a meaning. Other tags are kept, and mean nothing (as in RabbitMQ)."""


def grants(tags: Iterable[str], needed: str) -> bool:
    """Tell whether one of these tags permits what `needed` permits; "" is needed by nothing and always granted.

    Administrator includes all others, monitoring and policymaker include management.
    """
    if not needed:
        return True
    for tag in tags:
        if tag == needed or tag == ADMINISTRATOR:
            return True
        if needed == MANAGEMENT and (tag == MONITORING or tag == POLICYMAKER):
            return True
    return False
