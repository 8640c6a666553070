"""Certificates of the listeners as control operations see them: their terms, and their reload. The server has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mypy_extensions import mypyc_attr

from penstock.errors import PreconditionFailed

if TYPE_CHECKING:
    from penstock.protocols.common.control_request import ControlRequest


@mypyc_attr(allow_interpreted_subclasses=True)
class Certificates:
    """Certificates of a broker; this class is that of a broker without TLS."""

    def view(self) -> list[dict[str, object]]:
        """Return each certificate as plain data: its file, names, end (ISO 8601) and the days left."""
        return []

    def ends(self) -> list[tuple[str, str, float]]:
        """Return file and name of each certificate (the name is empty for the default), and the time of its end.

        Times are seconds since the epoch.
        """
        return []

    def reload(self, request: ControlRequest) -> None:
        """Read the certificates again, and answer the request when it is done. Raises PreconditionFailed (406)."""
        raise PreconditionFailed(
            "this broker has no TLS: set certificate and key in [tls] of its settings file, and listen-tls"
        )


def answer_reload(certificates: Certificates, request: ControlRequest) -> dict[str, object] | None:
    """Answer tls.reload {}: the certificates in effect for new connections; open ones keep theirs."""
    certificates.reload(request)
    return None
