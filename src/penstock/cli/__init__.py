"""Command line: each module has the commands of one kind; importing it registers them."""

from penstock.cli import (  # noqa: F401
    completion,
    config,
    connections,
    cursors,
    log_commands,
    man_page,
    messages,
    operator_commands,
    policies,
    report,
    serve,
    store_commands,
    tls,
    top,
    topology,
    users,
)
from penstock.cli.common import main

__all__ = ["keeping", "main", "messages", "operating", "serving", "topology"]
