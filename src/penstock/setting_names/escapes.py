"""Escaping of text for people: unprintable characters are written as escapes.

Clients choose names. A line feed in one could forge a line of the log; an escape sequence could rewrite a terminal.
"""

from __future__ import annotations

import json


def printable(text: str) -> str:
    """Return a text on one line without control characters, bidirectional marks and lone surrogates.

    Those are written as in Python's literals: a line feed as \n, an escape as \x1b. Printable letters of any script
    stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def printable_json(text: str) -> str:
    """Return a JSON text with the same value and no unprintable characters, except line feeds around values.

    `json.dumps` leaves DEL, C1 control characters and bidirectional marks in strings as they are.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1] for each in text)
