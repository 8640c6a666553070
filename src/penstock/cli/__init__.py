"""Command line: each module has the commands of one kind; importing it registers them."""

from penstock.cli import cursors, log_commands, messages, operator_commands, serve, store_commands, topology  # noqa: F401
from penstock.cli.common import main

__all__ = ["keeping", "main", "messages", "operating", "serving", "topology"]
