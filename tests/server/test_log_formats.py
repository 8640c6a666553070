"""Forms of the log on standard error: text, JSON, the Java broker's, and with priorities for the journal."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys

from penstock.server.log_formats import FORMATS as FORMATTERS
from penstock.server.log_formats import Qpid
from penstock.server.logs import LogLines

FORMATS = """
import logging, os, sys
from penstock.logs.ids import RELOADED
from penstock.logs.logger import log
from penstock.server.logs import logging_to_stderr, set_level

if len(sys.argv) > 2:
    status = os.fstat(2)
    os.environ["JOURNAL_STREAM"] = f"{status.st_dev}:{status.st_ino}"
with logging_to_stderr("warning", sys.argv[1]):
    log(RELOADED, "not told")
    assert set_level("info") and not set_level("info")
    log(RELOADED, "told of %s", "a\\nb", fields={"queue": "q"})
    try:
        1 / 0
    except ZeroDivisionError:
        logging.getLogger("asyncio").error("callback", exc_info=True)
assert not set_level("debug"), "the log of a program that embeds a broker is its own"
"""


def written(*words: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", FORMATS, *words], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stderr.splitlines()


def test_log_in_json_is_an_object_a_line_with_the_fields_of_the_record() -> None:
    told, library = map(json.loads, written("json"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", told.pop("time"))
    assert told == {"level": "info", "id": "PST-2031", "message": "[Broker] PST-2031 : told of a\nb", "queue": "q"}
    assert (library["level"], library["id"], library["logger"]) == ("error", "PST-2029", "asyncio")
    assert library["exception"].endswith("ZeroDivisionError: division by zero")


def test_log_to_the_journal_has_a_priority_and_no_time_on_every_line() -> None:
    told, *library = written("text", "journal")
    assert told == r"<6>INFO PST-2031 : told of a\nb"
    assert library[0] == "<3>ERROR PST-2029 : callback"
    assert all(line.startswith("<3>") for line in library)
    assert all(line.startswith(("<6>{", "<3>{")) for line in written("json", "journal"))


def test_log_in_qpids_form_begins_with_message_and_has_its_subject_twice() -> None:
    lines = LogLines(Qpid())
    subject = "[vh(/test)/qu(My] Queue\n)]"
    for text, name in (
        (f"{subject} QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000", "QUE-1003"),
        ("BRK-1001 : Startup : Version: 0.1.0", "BRK-1001"),
        ("definitions imported: 1 queue", "PST-2030"),
        ("a peer of [::1] is slow", "PST-2003"),
    ):
        lines.handle(logging.makeLogRecord({"msg": text, "name": "penstock", "id": name}))
    assert "".join(lines.writer.take()).splitlines() == [
        r"MESSAGE [vh(/test)/qu(My] Queue\n)] [vh(/test)/qu(My] Queue\n)] "
        "QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000",
        "MESSAGE [Broker] [Broker] BRK-1001 : Startup : Version: 0.1.0",
        "MESSAGE [Broker] [Broker] PST-2030 : definitions imported: 1 queue",
        "MESSAGE [Broker] [Broker] PST-2003 : a peer of [::1] is slow",
    ]


def test_log_in_qpids_form_has_tracebacks_below_and_priorities_in_the_journal() -> None:
    told, library, *traceback = written("qpid")
    assert told == r"MESSAGE [Broker] [Broker] PST-2031 : told of a\nb"
    assert library == "MESSAGE [Broker] [Broker] PST-2029 : callback"
    assert traceback[-1] == "ZeroDivisionError: division by zero"
    assert written("qpid", "journal")[0].startswith("<6>MESSAGE [Broker] [Broker] ")


def test_records_of_a_shard_name_the_shard_in_every_form() -> None:
    written: dict[str, list[str]] = {}
    for form, formatter in FORMATTERS.items():
        lines = LogLines(formatter(True, "west"))
        for text in ("RELOADED", "[con:3(ada)] CON-1001 : Open"):
            lines.handle(logging.makeLogRecord({"msg": text, "name": "penstock", "id": "CON-1001", "levelno": 20}))
        written[form] = "".join(lines.writer.take()).splitlines()
    assert [line.partition(" [")[2] for line in written["text"]] == [
        "shard:west] CON-1001 : RELOADED",
        "shard:west] [con:3(ada)] CON-1001 : Open",
    ]
    assert [json.loads(line.partition(">")[2])["shard"] for line in written["json"]] == ["west", "west"]
    assert [line.partition(">")[2] for line in written["qpid"]] == [
        "MESSAGE [shard:west] [shard:west] CON-1001 : RELOADED",
        "MESSAGE [con:3(ada)] [con:3(ada)] CON-1001 : Open",
    ]
