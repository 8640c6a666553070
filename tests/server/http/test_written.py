"""Answers as responses: those of several shards, with the ones that are missing."""

from __future__ import annotations

from penstock.server.http.lists import page_out_of_range
from penstock.server.http.written import missing_header


def test_header_names_missing_shards_in_ascii_on_one_line() -> None:
    assert missing_header([("2", "it has not answered for 2 s")]) == "2: it has not answered for 2 s"
    header = missing_header([("1", "é\nx"), ("b", "gone")])
    assert header == "1: \\xe9\\nx; b: gone"
    assert header.isascii()


def test_page_after_the_last_one_is_refused_in_the_words_of_rabbitmq() -> None:
    error = page_out_of_range(3, 10, 12)
    assert (error.status, error.error) == (400, "page_out_of_range")
    assert str(error) == "page out of range, page: 3 page size: 10, len: 12"
