"""Tables and diagrams of the pages that follow from the code and the tests.

A page has `<!-- table: NAME -->` and `<!-- end -->` around such a table. scripts/pages.py writes it there.
"""

from __future__ import annotations

from functools import cache

from bench import page as bench_page
from tests.support import (
    access_tables,
    alarm_table,
    bridge_key_tables,
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

MAKERS = (
    *(access_tables, alarm_table, bridge_key_tables, checklist_tables, client_option_table, command_tables),
    *(
        conversion_table,
        error_table,
        http_reference,
        log_id_table,
        metric_tables,
        pool_tables,
        record_tables,
        seed_tables,
    ),
    *(settings_tables, spark_option_tables, state_diagrams, bench_page),
)
"""Modules whose `tables` returns tables by name."""


@cache
def tables() -> dict[str, str]:
    """Return all tables by their names."""
    return {name: table.strip() for maker in MAKERS for name, table in maker.tables().items()}
