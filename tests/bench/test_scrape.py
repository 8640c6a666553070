"""The measurement of scrapes: it reads whole answers."""

from __future__ import annotations

from bench.scrape import PATHS, TIMES, measured


async def test_scraped_path_is_read_whole_each_time() -> None:
    found = await measured(20)
    assert list(found) == list(PATHS)
    for path, scrapes in found.items():
        assert len(scrapes) == TIMES
        for each in scrapes:
            assert each.octets > 1000, path
            assert each.cpu_ms > 0 or each.longest_ms > 0
