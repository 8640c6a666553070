"""Command line: each module has the commands of one kind; importing it registers them."""

from penstock.cli import (  # noqa: F401
    cursors,
    log_commands,
    messages,
    operator_commands,
    policies,
    serve,
    store_commands,
    tls,
    top,
    topology,
    users,
)
from penstock.cli.common import main

__all__ = ["keeping", "main", "messages", "operating", "serving", "topology"]
