"""Links of one session: by the peer's handle, with handles of ours, and by the consumer of a receiver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from penstock.core.consume.consumer import Consumer
from penstock.core.consume.outcome import Outcome
from penstock.errors import NotAllowed
from penstock.protocols.amqp10.link import Link
from penstock.protocols.amqp10.link_state import LINK_ATTACHED, LinkState
from penstock.protocols.amqp10.outgoing_link import OutgoingLink

if TYPE_CHECKING:
    from penstock.protocols.amqp10.session import AmqpSession

HANDLE_MAX: Final = 1023
"""Largest handle: a session has at most 1,024 links."""


class SessionLinks:
    """Links of one session. Our handle of a link is the peer's, unless its handle-max does not permit that."""

    def __init__(self, peer_handle_max: i64) -> None:
        self.by_handle: dict[int, Link] = {}
        """Links by the peer's handle, until the peer's detach."""
        self.ignored: set[int] = set()
        """Handles of links that were refused, until the peer's detach."""
        self._peer_handle_max: i64 = peer_handle_max
        self._receivers: dict[str, OutgoingLink] = {}
        """Attached links whose receiver the peer is, by the tag of their consumer: their name."""

    def free_handle(self, wanted: i64) -> i64:
        """Return a handle for a new link: the wanted one if possible. Raises NotAllowed if the peer takes no more."""
        most = self._peer_handle_max
        if most >= HANDLE_MAX:
            return wanted  # All links have the peer's handles.
        used = {int(link.handle) for link in self.by_handle.values()}
        if wanted <= most and wanted not in used:
            return wanted
        for handle in range(int(most) + 1):
            if handle not in used:
                return handle
        raise NotAllowed(f"attach with handle {wanted}: the peer takes handles up to {most}, and all are in use")

    def add(self, link: Link) -> None:
        """Add an attached link."""
        self.by_handle[int(link.peer_handle)] = link
        link.session.engine.link_count += 1
        if isinstance(link, OutgoingLink):
            self._receivers[link.consumer.tag] = link

    def forget(self, link: Link) -> None:
        """Remove a link that both sides have detached."""
        link.move(LinkState.DETACHED)
        del self.by_handle[int(link.peer_handle)]
        link.unlink()
        link.session.engine.link_count -= 1

    def receiver_of(self, consumer: Consumer) -> OutgoingLink | None:
        """Return the attached link of a consumer."""
        link = self._receivers.get(consumer.tag)
        return link if link is not None and link.consumer is consumer else None

    def has_receivers(self) -> bool:
        """Tell whether any link is attached whose receiver the peer is."""
        return len(self._receivers) > 0

    def forget_receiver(self, link: OutgoingLink) -> None:
        """Remove a link that is being detached from those of consumers."""
        if self._receivers.get(link.consumer.tag) is link:
            del self._receivers[link.consumer.tag]

    def unlink(self) -> None:
        """Drop all links: their session has ended."""
        for link in self.by_handle.values():
            link.unlink()
        self.by_handle.clear()
        self._receivers.clear()

    def end(self, session: AmqpSession, graceful: bool) -> None:
        """Suspend the links whose terminus outlives the session, which ends.

        If the peer ends it (`graceful`), unsettled deliveries of the others get the default outcome of their source;
        else they count as failed.
        """
        suspended = session.engine.suspended
        if graceful:
            session.end_outcome = Outcome.RELEASED
        for link in self.by_handle.values():
            if link.state == LINK_ATTACHED:
                link.suspend()
                if isinstance(link, OutgoingLink):
                    link.on_session_ended(graceful)
            suspended.forget(link.key, link)
        suspended.on_session_ended(session, session.connection_number)
