"""Listening Unix socket: a file, which a killed broker leaves behind.

Whoever may reach the file may connect, as the directory permits; a login is needed all the same.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from typing import Final

from penstock.errors import StartError

MODE: Final = 0o666
"""Permissions of the file: every user of the machine may connect whom the directory lets in."""


class UnixSocket:
    """Listening Unix socket at a path."""

    def __init__(self, path: str, what: str) -> None:
        """`what` begins the sentences of errors, as in "cannot listen on unix:/run/penstock/amqp.sock"."""
        self._path = path
        self._title = f"cannot {what} on unix:{path}"
        self._file: tuple[int, int] | None = None
        """Inode and last change of the own file, as inodes are used again; None before `open`."""

    def open(self, backlog: int) -> socket.socket:
        """Return the listening socket, which does not block. Raises StartError.

        A file that no process listens at is replaced: a broker that was killed has left it.
        """
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            try:
                sock.bind(self._path)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise
                self._check_left_behind()
                os.unlink(self._path)
                sock.bind(self._path)
            os.chmod(self._path, MODE)
            self._file = self._present()
            sock.listen(backlog)
        except OSError as error:
            sock.close()
            raise StartError(f"{self._title}: {error.strerror or error}") from None
        except StartError:
            sock.close()
            raise
        return sock

    def remove(self) -> None:
        """Remove the file, unless another process has replaced it."""
        with contextlib.suppress(OSError):
            if self._file is not None and self._present() == self._file:
                os.unlink(self._path)

    def _present(self) -> tuple[int, int]:
        found = os.stat(self._path)
        return found.st_ino, found.st_ctime_ns

    def _check_left_behind(self) -> None:
        """Check that no process listens at the file. Raises StartError."""
        if not stat.S_ISSOCK(os.stat(self._path).st_mode):
            raise StartError(f"{self._title}: there is a file that is no socket; remove it or choose another path")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as other:
            try:
                other.connect(self._path)
            except ConnectionRefusedError:
                return
            except BlockingIOError:  # Its queue of connections is full.
                pass
        raise StartError(f"{self._title}: another program listens there; stop it or choose another path")
