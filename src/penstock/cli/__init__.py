"""The command line: arguments in, one call out. Each module has the commands of one kind; importing it adds them."""

from penstock.cli import messages, operating, serving, topology
from penstock.cli.asking import main

__all__ = ["main", "messages", "operating", "serving", "topology"]
