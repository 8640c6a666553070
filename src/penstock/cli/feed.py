"""Feed of a display: a broker that is asked again and again, over a connection that is made anew when it is lost."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from penstock.cli.names import near_match
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from penstock.client.blocking import Connection
    from penstock.client.options import Options

TIMEOUT_S: Final = 10.0
"""Seconds that an answer may take, as those of a connection by default."""


class Feed:
    """Control operations on one connection, which begins with the first one; used by one thread."""

    def __init__(self, options: Options) -> None:
        self.options: Final = options
        self._connection: Connection | None = None

    def ask(self, operation: str, fields: dict[str, object]) -> dict[str, Any]:
        """Return an answer; raises PenstockError with the reason.

        `ControlError` is the broker's refusal, after which the connection stays. After any other error the next call
        connects again.
        """
        from penstock.client.errors import ControlError

        try:
            return self._connected().request(operation, **fields)
        except ControlError as error:
            assert self._connection is not None
            raise ControlError(error.code, error.name, error.text + near_match(self._connection, error.text)) from None
        except (PenstockError, OSError):
            self.close()
            raise

    def _connected(self) -> Connection:
        from penstock.client.blocking import Connection

        if self._connection is None:
            self._connection = Connection(self.options)
        return self._connection

    def close(self) -> None:
        """Close the connection; a later question makes another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(PenstockError, OSError):
                connection.close()
