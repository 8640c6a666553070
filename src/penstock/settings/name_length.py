"""Limits for all packages."""

from typing import Final

NAME_MAX: Final = 255
"""Bytes of a name or routing key (AMQP 0-9-1 section 4.2.5.3)."""
