"""An independent encoder of the block format, straight from its description, for the tests of the decoder."""

import json
import struct

TEXTS = ("exchange", "routing_key", "message_id", "correlation_id", "reply_to", "content_type", "expiration")
NUMBERS = {"sequence": "q", "timestamp": "q", "priority": "i", "delivery_mode": "i", "message_timestamp": "q"}
OF_A_READER = ("sequence", "timestamp", "priority")

Place = tuple[dict, str, bytes]
"""A buffer: the column that names it, the name, and its octets."""


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 64)


def _bitmap(values: list) -> bytes:
    octets = bytearray(-(-len(values) // 8))
    for index, value in enumerate(values):
        if value is not None:
            octets[index // 8] |= 1 << index % 8
    return bytes(octets)


def _buffers(name: str, values: list) -> dict[str, bytes]:
    found = {}
    if None in values:
        found["valid"] = _bitmap(values)
    if name in NUMBERS:
        found["data"] = struct.pack(f"<{len(values)}{NUMBERS[name]}", *(value or 0 for value in values))
        return found
    texts = [(value.encode() if isinstance(value, str) else value) or b"" for value in values]
    ends = [0]
    for text in texts:
        ends.append(ends[-1] + len(text))
    return {**found, "offsets": struct.pack(f"<{len(ends)}i", *ends), "data": b"".join(texts)}


def _list_column(values: list, parts: list[Place]) -> dict:
    """Return a column of lists of key and value (pairs); its buffers are added to `parts`."""
    pairs = [pair for value in values for pair in value or ()]
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value or ()))
    key, item = {}, {}
    column = {"items": {"rows": len(pairs), "columns": {"key": key, "value": item}}}
    parts.append((column, "offsets", struct.pack(f"<{len(ends)}i", *ends)))
    if None in values:
        parts.append((column, "valid", _bitmap(values)))
    parts += [(key, part, data) for part, data in _buffers("key", [pair[0] for pair in pairs]).items()]
    parts += [(item, part, data) for part, data in _buffers("value", [pair[1] for pair in pairs]).items()]
    return column


def encode(queue: str, rows: list[dict], *, constants: tuple[str, ...] = (), more: tuple[str, ...] = ()) -> bytes:
    """Return the block of `rows` (dicts by column name, missing is null); `constants` are sent as {"all": value}.

    `more` are texts besides the default columns; `headers` are lists of pairs.
    """
    columns: dict[str, dict] = {"redelivered": {"all": False}}
    parts: list[Place] = []
    for name in (*OF_A_READER, *TEXTS, *more, "value"):
        values = [row.get(name) for row in rows]
        if name in constants:
            columns[name] = {"all": values[0]}
        elif name == "headers":
            columns[name] = _list_column(values, parts)
        else:
            columns[name] = {}
            parts += [(columns[name], part, data) for part, data in _buffers(name, values).items()]
    header = {"rows": len(rows), "queue": queue, "first": rows[0]["sequence"], "last": rows[-1]["sequence"]}
    return _assembled(header, columns, parts)


def encode_published(rows: list[dict], constants: dict[str, object] | None = None, **fields: object) -> bytes:
    """Return the block of rows to be published (dicts by column name, missing is null); `fields` are of its header."""
    columns: dict[str, dict] = {name: {"all": value} for name, value in (constants or {}).items()}
    parts: list[Place] = []
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        if name == "headers":
            columns[name] = _list_column(values, parts)
        else:
            columns[name] = {}
            parts += [(columns[name], part, data) for part, data in _buffers(name, values).items()]
    return _assembled({"rows": len(rows), **fields}, columns, parts)


def _assembled(header: dict[str, object], columns: dict[str, dict], parts: list[Place]) -> bytes:
    # The places of the buffers depend on the header's length, which depends on the places: settled by repetition.
    size = 0
    while True:
        start = size
        for column, part, data in parts:
            column[part] = [start, len(data)]
            start += len(_padded(data))
        text = json.dumps({**header, "columns": columns}).encode()
        begin = len(_padded(b"PSB1____" + text))
        if begin == size:
            break
        size = begin
    return _padded(b"PSB1" + struct.pack("<I", len(text)) + text) + b"".join(_padded(data) for _, _, data in parts)
