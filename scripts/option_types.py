"""Write the types of keywords from the tables of options and settings: src/penstock/client/option_types.py.

`make pages` runs it, and tests/client/test_option_types.py compares the file with the tables.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "src" / "penstock" / "client" / "option_types.py"
sys.path.insert(0, str(ROOT / "src"))

from penstock.client.options import CONNECTION, OPTIONS, PUBLISHER, RECEIVER, Option  # noqa: E402
from penstock.settings.kind import Choices, Flag, Number  # noqa: E402
from penstock.settings.read import FEATURES  # noqa: E402
from penstock.settings.table import ALIASES, SETTINGS  # noqa: E402

HEAD = '''"""Types of keywords: `connect`, `publisher`, `receiver` and `declare_queue`, for type checkers and editors.

scripts/option_types.py writes this file from the tables of options and settings. Nothing imports it at run time.
"""

from __future__ import annotations

from collections.abc import Callable
from ssl import SSLContext
from typing import Literal, TypedDict

SettingOfQueue = str | int | float | bool | None
"""Value of a setting of a queue: a number, a text with a unit such as "64MiB", or "none"."""

'''


def snake(name: str) -> str:
    """Return the name of an option as a keyword: `producer_window_size` for `producerWindowSize`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def keywords(option: Option) -> list[str]:
    """Return the keywords of an option that a program can write."""
    names = [snake(option.name), option.name, *option.aliases, *option.in_milliseconds]
    return [name for name in dict.fromkeys(names) if name.isidentifier()]


def type_of(option: Option) -> str:
    """Return the type of an option's value."""
    kind = option.kind
    if isinstance(kind, Choices):
        quoted = ", ".join(f'"{word}"' for word in kind.words)
        return f"Literal[{quoted}]"
    if isinstance(kind, Number):
        return "int | str" if kind.whole else "float | str"
    return "bool | str" if isinstance(kind, Flag) else "str"


def setting_keywords() -> list[str]:
    """Return the keywords of a queue's settings: `_` is `-` in the name of the argument."""
    ours = [setting.name for setting in SETTINGS if "queue" in setting.scopes.split()]
    names = [*ours, *ALIASES, *sorted(FEATURES)]
    found = [name.replace("-", "_") for name in names if "_" not in name]
    return [name for name in dict.fromkeys(found) if name.isidentifier()]


def fields(*scopes: str, none: bool = False) -> Iterator[str]:
    """Yield the fields of the options of some scopes; in a connection each may be None, for the default."""
    for option in OPTIONS:
        if option.scope in scopes:
            kind = type_of(option)
            for name in keywords(option):
                yield f"    {name}: {kind} | None" if none else f"    {name}: {kind}"


def text() -> str:
    """Return the file."""
    lines = [
        *("", "class PublisherOptions(TypedDict, total=False):", '    """Options of one publisher."""', ""),
        *("    name: str", *fields(PUBLISHER)),
        *("", "", "class ReceiverOptions(TypedDict, total=False):", '    """Options of one receiver."""', ""),
        *("    name: str", *fields(RECEIVER)),
        *("", "", "class ConnectionOptions(TypedDict, total=False):"),
        *('    """Options of a connection, with the defaults of its publishers and receivers."""', ""),
        *("    user: str", "    password: str", "    virtual_host: str", "    product: str", "    query: str"),
        *("    tls: SSLContext | None", "    token: Callable[[], str] | str | None"),
        *fields(CONNECTION, PUBLISHER, RECEIVER, none=True),
        *("", "", "class QueueSettings(TypedDict, total=False):"),
        *('    """Settings of a queue at its declaration, by our names and those of other brokers."""', ""),
        *(f"    {name}: SettingOfQueue" for name in setting_keywords()),
    ]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    if not FILE.exists() or FILE.read_text() != text():
        FILE.write_text(text())
        print(FILE.relative_to(ROOT))
