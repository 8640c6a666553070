"""The table of all operations, and what each of them needs."""

from __future__ import annotations

from typing import Final

from penstock.management.operation import Operation
from penstock.operations import (
    blocks,
    definitions_import,
    limits,
    looking,
    parameters,
    permissions,
    policies,
    settings,
    spark,
    topology,
    users,
    vhosts,
)

OPERATIONS: Final[tuple[Operation, ...]] = (
    *spark.OPERATIONS,
    *looking.OPERATIONS,
    *settings.OPERATIONS,
    *blocks.OPERATIONS,
    *policies.OPERATIONS,
    *parameters.OPERATIONS,
    *users.OPERATIONS,
    *permissions.OPERATIONS,
    *limits.OPERATIONS,
    *vhosts.OPERATIONS,
    *topology.OPERATIONS,
    *definitions_import.OPERATIONS,
)
CONTROL: Final[dict[str, Operation]] = {row.name: row for row in OPERATIONS if row.name}
"""Operations of the control exchange, by name."""
