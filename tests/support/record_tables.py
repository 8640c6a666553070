"""Tables of docs/inside/flow-log.md and docs/audit-log.md: the fields of the records."""

from __future__ import annotations

from penstock.logs import auditlog, flowlog
from tests.support.generated_parts import table


def fields(record: dict[str, tuple[str, str]]) -> str:
    """Return the table of the fields of a record."""
    rows = [(f"`{name}`", kind.lower(), meaning) for name, (kind, meaning) in record.items()]
    return table(("field", "type", "meaning"), *rows)


def tables() -> dict[str, str]:
    """Return the tables by their names."""
    return {
        "fields of the flow log": fields(flowlog.RECORD),
        "fields of the audit log": fields(auditlog.RECORD),
    }
