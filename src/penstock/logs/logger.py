"""Records of the log, with their ids (logs/ids.py). Pure packages log by `Services.log` instead."""

from __future__ import annotations

import logging
from typing import Final

from penstock.logs.ids import level_of

_LOGGER: Final = logging.getLogger("penstock")


def log(name: str, text: str, *values: object, error: bool = False, fields: dict[str, object] | None = None) -> None:
    """Write a record with the level of its id; `text` takes `values` as in `logging`.

    With `error` the record has the traceback of the present exception. `fields` become attributes of the record.
    """
    level = level_of(name)
    if _LOGGER.isEnabledFor(level):
        _LOGGER.log(level, text, *values, exc_info=error, extra={"id": name, **(fields or {})})
