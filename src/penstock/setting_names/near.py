"""Near match of a misspelt name among the known ones, and what may follow the question."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known name that is nearest to a misspelt one; "" if none has that similarity (difflib), 0 to 1."""
    import difflib  # A command that ends well has no need of it.

    found = difflib.get_close_matches(name, [*known], n=1, cutoff=cutoff)
    return found[0] if found else ""


def joined(text: str, clause: str) -> str:
    """Return a text with a further clause: after a question ("did you mean ...?") it is a sentence of its own."""
    return f"{text} {clause[0].upper()}{clause[1:]}" if text.endswith("?") else f"{text}; {clause}"
