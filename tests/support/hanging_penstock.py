"""Penstock whose event loop hangs at SIGUSR1, in the main thread alone, until a FIFO is opened for writing.

python -m tests.support.hanging_penstock FIFO serve ...
"""

import os
import signal
import sys

from penstock.cli import main

fifo = sys.argv.pop(1)


def hang(*_: object) -> None:
    os.write(2, b"the loop hangs\n")
    os.close(os.open(fifo, os.O_RDONLY))  # Opening waits for a writer; all other threads run on.


signal.signal(signal.SIGUSR1, hang)
main()
