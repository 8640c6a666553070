"""Tables and diagrams of the pages in docs/ that are made from the code and the tests when the site is built.

A page has `<!-- table: NAME -->` in place of such a table. scripts/site_hooks.py puts it there.
"""

from __future__ import annotations

import re
from functools import cache

from bench import page as bench_page
from tests.support import (
    access_tables,
    checklist_tables,
    client_option_table,
    command_tables,
    conversion_table,
    error_table,
    http_reference,
    log_id_table,
    metric_tables,
    pool_tables,
    record_tables,
    seed_tables,
    settings_tables,
    spark_option_tables,
    state_diagrams,
)

PLACE = re.compile(r"^<!-- table: (.+) -->$", re.MULTILINE)
"""The place of a table in a page."""
MAKERS = (
    *(access_tables, checklist_tables, client_option_table, command_tables, conversion_table, error_table),
    *(http_reference, log_id_table, metric_tables, pool_tables, record_tables, seed_tables),
    *(settings_tables, spark_option_tables, state_diagrams, bench_page),
)
"""Modules whose `tables` returns tables by name."""


@cache
def tables() -> dict[str, str]:
    """Return all tables by their names."""
    return {name: table.strip() for maker in MAKERS for name, table in maker.tables().items()}


def with_tables(page: str) -> str:
    """Return a page with its tables. Raises KeyError for one that nothing makes."""
    return PLACE.sub(lambda found: tables()[found[1]], page)
