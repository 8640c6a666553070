"""Lengths of texts that several packages check."""

from typing import Final

NAME_MAX: Final = 255
"""Bytes of a name or routing key (AMQP 0-9-1 section 4.2.5.3)."""
SPREAD_CHARACTERS: Final = 160
"""Characters of a sink's spread, which a broker stores with a batch; a client cuts a longer one and adds a digest."""
