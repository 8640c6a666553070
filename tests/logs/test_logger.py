"""Records with ids: their level is that of the id."""

from __future__ import annotations

import logging

import pytest

from penstock.logs.ids import DAMAGED, RECOVERED
from penstock.logs.logger import log


def test_record_has_its_id_the_level_of_the_id_and_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "penstock"):
        log(RECOVERED, "recovered: %s messages", "1,000", fields={"count": 1000})
        try:
            raise OSError("torn")
        except OSError:
            log(DAMAGED, "a page", error=True)
    first, second = caplog.records
    assert (first.getMessage(), first.levelname, first.__dict__["id"]) == (
        "recovered: 1,000 messages",
        "INFO",
        RECOVERED,
    )
    assert first.__dict__["count"] == 1000
    assert second.levelno == logging.ERROR
    assert second.exc_info is not None


def test_record_below_the_level_is_not_made(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "penstock"):
        log(RECOVERED, "recovered: %s messages", "1,000")
    assert caplog.records == []
