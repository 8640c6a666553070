"""Password or token in a file, which is read again at each login, so that it may be renewed while a query runs.

Only the path of the file is an option. The content of the file is in no option, plan, log or page of Spark.
"""

from pathlib import Path
from typing import Final

OCTETS_MAX: Final = 65_536
"""Most bytes of a password file. A larger file is refused as not being a password file."""


def read_password(path: str) -> str:
    """Return the password in a file: its one line.

    Raises ``ValueError`` that names the file, and shows none of its content.
    """
    try:
        with Path(path).open("rb") as file:
            octets = file.read(OCTETS_MAX + 1)
    except OSError as error:
        raise ValueError(f"the password file '{path}' cannot be read: {error.strerror}") from None
    if len(octets) > OCTETS_MAX:
        raise ValueError(f"the password file '{path}' has more than {OCTETS_MAX:,} bytes; it must have one line")
    try:
        text = octets.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"the password file '{path}' is not UTF-8; it must have one line of text") from None
    if not text or "\n" in text:
        found = "several lines" if text else "no text"
        raise ValueError(f"the password file '{path}' has {found}; it must have one line")
    return text
