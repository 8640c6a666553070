"""The command line: arguments in, one call out. Each module has the commands of one kind; importing it adds them."""

from penstock.cli import keeping, messages, operating, serving, topology
from penstock.cli.asking import main

__all__ = ["keeping", "main", "messages", "operating", "serving", "topology"]
