"""A node of the broker that a link has created or joined, and that must hear of the link's end."""

from __future__ import annotations

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class LinkNode:
    """Node of a link outside of its session: a dynamic node, or a subscription."""

    def on_link_ended(self, closed: bool) -> None:
        """Handle the end of the link; `closed`: it was closed for good, not by the loss of its connection."""
        raise NotImplementedError
