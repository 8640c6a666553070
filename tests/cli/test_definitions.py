"""Export and import of definitions at the command line, against a broker on a real port."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.core.settings.table import PARAMETERS_MAX
from tests.support.brokers import BrokerProcess, penstock_command
from tests.support.commands import listed, run


def test_definitions_go_out_and_come_in(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    run(broker, "declare", "vhost", name)
    run(broker, "declare", "queue", "q", "capacity-messages=3", vhost=name)
    file = tmp_path / "broker.json"
    assert run(broker, "definitions", "export", str(file), "--here", vhost=name) == f"{file}: 1 vhost, 1 queue\n"
    assert file.stat().st_mode & 0o777 == 0o600, "hashes of passwords are in it"
    assert json.loads(run(broker, "definitions", "export", "--here", vhost=name))["queues"][0]["name"] == "q"
    old, link = tmp_path / "old.json", tmp_path / "link.json"
    old.write_text("x" * 100_000)
    old.chmod(0o644)
    run(broker, "definitions", "export", str(old), "--here", vhost=name)
    assert (old.stat().st_mode & 0o777, old.read_text()) == (0o600, file.read_text())
    link.symlink_to(tmp_path / "elsewhere")
    refused = run(broker, "definitions", "export", str(link), "--here", vhost=name, code=1)
    assert refused == f"penstock: cannot write '{link}': it is a symbolic link\n"
    assert not (tmp_path / "elsewhere").exists()
    run(broker, "delete", "queue", "q", vhost=name)
    assert run(broker, "definitions", "import", str(file)) == "1 queue created\n"
    file.write_text(file.read_text().replace('"durable"', '"durabel"'))
    refused = run(broker, "definitions", "import", str(file), code=1)
    assert "queues[0]: an entry of queues has no key 'durabel'; did you mean durable? Nothing was imported" in refused
    assert "cannot read" in run(broker, "definitions", "import", str(tmp_path / "none"), code=1)
    run(broker, "delete", "vhost", name)


def test_notes_of_an_import_have_a_line_each(broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    file = tmp_path / "broker.json"
    policy = {"name": name, "vhost": "/", "pattern": f"^{name}$", "definition": {"queue-mode": "lazy"}}
    file.write_text(json.dumps({"policies": [policy, {**policy, "name": f"{name}-2"}]}))
    *notes, created = run(broker, "definitions", "import", str(file)).splitlines()
    assert created == "2 policies created"
    assert [note.partition(":")[0] for note in notes] == [
        f"policy '{name}' of vhost '/'",
        f"policy '{name}-2' of vhost '/'",
    ]
    for each in (name, f"{name}-2"):
        run(broker, "policies", "clear", each)


def test_converted_definitions_go_to_a_file_without_a_broker(tmp_path: Path) -> None:
    source, file = tmp_path / "broker.xml", tmp_path / "broker.json"
    source.write_text("<core><name>a</name><global-max-size>1Gb</global-max-size></core>")
    words = ("definitions", "import", "--from", "artemis", str(source), "--output")
    remark = "line 1: <name>: not converted: "
    done = penstock_command(*words, str(file))
    assert done.returncode == 0
    assert done.stdout.startswith(f"{file}: 1 setting\n{remark}")
    settings = [{"scope": "broker", "pattern": "", "settings": {"global-max-size": "1Gb"}}]
    assert json.loads(file.read_text()) == {"settings": settings}
    assert file.stat().st_mode & 0o777 == 0o600
    piped = penstock_command(*words, "-")
    assert json.loads(piped.stdout) == {"settings": settings}
    assert piped.stderr.startswith(remark)
    answer = json.loads(penstock_command(*words, str(file), "--json").stdout)
    assert answer["converted"] == {"settings": 1}
    assert [(each["line"], each["subject"], each["left"]) for each in answer["remarks"]] == [(1, "<name>", True)]


def test_conversion_that_cannot_be_made_says_where(tmp_path: Path) -> None:
    source = tmp_path / "broker.xml"
    source.write_text("<core>\n</cor>")
    words = ("definitions", "import", str(source))
    done = penstock_command(*words, "--from", "artemis")
    assert (done.returncode, done.stderr) == (1, f"penstock: {source}: line 2: the XML is malformed: mismatched tag\n")
    done = penstock_command(*words, "--output", "-")
    assert (done.returncode, done.stderr) == (1, "penstock: --output needs --from: it is for converted definitions\n")
    done = penstock_command(*words, "--from", "artemis", "--output", str(tmp_path))
    assert done.returncode == 1


ROOT = Path(__file__).resolve().parents[2]
MIXED: dict[str, list[dict[str, object]]] = {
    "exchanges": [
        {"name": "orders", "type": "topic", "durable": True, "arguments": {"alternate-exchange": "history"}},
        {"name": "history", "type": "x-recent-history", "durable": True, "arguments": {}},
    ],
    "queues": [
        {"name": "orders", "durable": True, "arguments": {"x-dead-letter-exchange": "history"}},
        {"name": "events", "durable": True, "arguments": {"x-queue-type": "stream", "x-max-age": "7D"}},
        {"name": "broken", "durabel": True},
    ],
    "bindings": [
        {"source": "orders", "destination": "orders", "destination_type": "queue", "routing_key": "#"},
        {"source": "history", "destination": "orders", "destination_type": "queue", "routing_key": "#"},
        {"source": "orders", "destination": "events", "destination_type": "queue", "routing_key": "eu.*"},
    ],
    "policies": [
        {"name": "long", "pattern": "^orders$", "apply-to": "queues", "definition": {"max-length": 1000}},
        {"name": "bad", "pattern": "^orders$", "apply-to": "queues", "definition": {"message-ttl": -5}},
    ],
}
"""An export with a plugin's exchange type, a stream, a misspelt key and a policy that is refused."""


@pytest.fixture
def vhost(broker: BrokerProcess, name: str) -> Iterator[str]:
    run(broker, "declare", "vhost", name)
    yield name
    run(broker, "delete", "vhost", name)


@pytest.fixture
def mixed(vhost: str, tmp_path: Path) -> str:
    """A file of definitions of a virtual host, with an entry a line; about a third of them are refused."""
    lines = ["{"]
    for section, entries in MIXED.items():
        lines.append(f'"{section}": [')
        lines += [json.dumps({"vhost": vhost, **entry}) + "," for entry in entries]
        lines[-1] = lines[-1].removesuffix(",")
        lines.append("],")
    file = tmp_path / "broker.json"
    file.write_text("\n".join([*lines[:-1], "]", "}"]))
    return str(file)


def imported(broker: BrokerProcess, *words: str, code: int = 0) -> list[str]:
    done = penstock_command("definitions", "import", *words, "--url", broker.url)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "\\n" not in done.stdout + done.stderr, "no escaped line feed is shown"
    return (done.stdout if code == 0 or "--dry-run" in words else done.stderr).splitlines()


def outcomes(lines: list[str]) -> dict[str, str]:
    """Return reasons by the words before them; without the virtual host, which has a name of its own."""
    found = [re.sub(r" (in|of) vhost '[^']*'", "", line) for line in lines if line.startswith("line ")]
    return dict(line.split(": skipped: ", 1) for line in found if ": skipped: " in line)


def test_import_of_a_mixed_export_skips_refused_entries_and_their_dependents(
    broker: BrokerProcess, mixed: str, vhost: str
) -> None:
    (refused,) = imported(broker, mixed, code=1)
    assert refused.endswith(". --dry-run lists all refused entries, and --skip-refused imports the other entries")
    assert [queue for queue in listed(broker, "queues", "--everywhere") if queue["vhost"] == vhost] == []
    before = imported(broker, mixed, "--dry-run", code=1)
    assert before[-1] == "6 refused: nothing would be imported without --skip-refused"
    tried = imported(broker, mixed, "--skip-refused", "--dry-run")
    lines = imported(broker, mixed, "--skip-refused")
    assert outcomes(lines) == outcomes(tried) == {
        "line 9: queues[2].durabel": "an entry of queues has no key 'durabel'; did you mean durable?",
        "line 18: policy 'bad'": "message-ttl must be milliseconds from 0 (such as 30min), or none, not -5",
        "line 4: exchange 'history'": "unknown exchange type 'x-recent-history'; known are direct, fanout, topic, "
        "headers, x-consistent-hash, x-modulus-hash, x-random and x-delayed-message",
        "line 8: queue 'events'": "queue 'events': a stream needs a data directory, and this broker keeps "
        "everything in memory; start it with --data",
        "line 13: binding from exchange 'history' to queue 'orders' by '#'": "exchange 'history' is skipped",
        "line 14: binding from exchange 'orders' to queue 'events' by 'eu.*'": "queue 'events' is skipped",
    }  # fmt: skip
    notes = [
        f"exchange 'orders' in vhost '{vhost}': alternate-exchange=history is skipped; what reaches no queue is lost "
        "until it exists",
        f"queue 'orders' in vhost '{vhost}': x-dead-letter-exchange=history is skipped; dead letters are lost until it "
        "exists",
    ]
    assert [line for line in lines if line in notes] == [line for line in tried if line in notes] == notes
    assert lines[-1] == (
        "1 policy, 1 exchange, 1 queue, 1 binding created; 2 queues, 1 policy, 1 exchange, 2 bindings skipped"
    )
    assert tried[-1] == "4 to be created, 0 to be changed, 0 unchanged, 6 to be skipped"
    assert [each["name"] for each in listed(broker, "queues", "--everywhere") if each["vhost"] == vhost] == ["orders"]


def test_single_entry_is_skipped_by_name_with_its_dependents(broker: BrokerProcess, mixed: str) -> None:
    words = ("--skip", "exchange:history", "--skip", "queue:events", "--skip", "policy:bad")
    (refused,) = imported(broker, mixed, *words, code=1)
    assert "queues[2]: an entry of queues has no key 'durabel'" in refused, "what was not named is refused"
    Path(mixed).write_text(Path(mixed).read_text().replace("durabel", "durable"))
    lines = imported(broker, mixed, *words)
    assert outcomes(lines) == {
        "line 18: policy 'bad'": "as asked",
        "line 4: exchange 'history'": "as asked",
        "line 8: queue 'events'": "as asked",
        "line 13: binding from exchange 'history' to queue 'orders' by '#'": "exchange 'history' is skipped",
        "line 14: binding from exchange 'orders' to queue 'events' by 'eu.*'": "queue 'events' is skipped",
    }
    assert lines[-1] == (
        "1 policy, 1 exchange, 2 queues, 1 binding created; 1 policy, 1 exchange, 1 queue, 2 bindings skipped"
    )


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        (
            "exchange:histori",
            "the file has no exchange 'histori' to skip; did you mean 'history'? Nothing was imported",
        ),
        ("exchanje:delays", "a file of definitions has no kind 'exchanje'; did you mean exchange?"),
        (
            "binding:orders",
            "a file of definitions has no kind 'binding'; known are vhost, user",
        ),
    ],
)
def test_missing_entry_to_skip_is_refused(broker: BrokerProcess, mixed: str, word: str, sentence: str) -> None:
    Path(mixed).write_text(Path(mixed).read_text().replace("durabel", "durable"))
    (refused,) = imported(broker, mixed, "--skip", word, code=1)
    assert sentence in refused


def test_streams_are_imported_as_durable_queues(broker: BrokerProcess, mixed: str, vhost: str) -> None:
    lines = imported(broker, mixed, "--skip-refused", "--streams-as-queues")
    (note,) = [line for line in lines if line.startswith("queue 'events'")]
    assert "a stream, imported as a durable queue: an acknowledged message is gone" in note
    assert note.endswith("; left out: x-max-age=7D")
    (made,) = [queue for queue in listed(broker, "queues", "--everywhere") if queue["name"] == "events"]
    assert (made["durable"], made["arguments"]) == (True, {})
    again = imported(broker, mixed, "--skip-refused", "--streams-as-queues", "--dry-run")
    assert again[-1] == "0 to be created, 0 to be changed, 6 unchanged, 4 to be skipped"


def test_limit_of_the_broker_is_no_reason_to_skip(broker: BrokerProcess, vhost: str, tmp_path: Path) -> None:
    file = tmp_path / "broker.json"
    names = [f"p{number}" for number in range(PARAMETERS_MAX + 1)]
    entries = [{"vhost": vhost, "component": "plugin", "name": name, "value": {}} for name in names]
    file.write_text(json.dumps({"parameters": entries}))
    (refused,) = imported(broker, str(file), "--skip-refused", code=1)
    assert f"there are {PARAMETERS_MAX:,} parameters, the most that there may be" in refused


def documented(begin: str) -> list[str]:
    """Return the output of a command in docs/definitions.md."""
    lines = (ROOT / "docs" / "definitions.md").read_text().splitlines()
    start = lines.index(f"$ {begin}") + 1
    return lines[start : next(at for at in range(start, len(lines)) if lines[at].startswith(("$ ", "```")))]


def test_documented_import_prints_the_output_of_the_page(own_broker: BrokerProcess, tmp_path: Path) -> None:
    queues = [{"vhost": "/", "name": "orders", "arguments": {"x-dead-letter-exchange": "history"}}]
    queues += [{"vhost": "/", "name": f"q{number}"} for number in range(42)]
    dead = {"vhost": "eu", "name": "dead", "pattern": ".*", "priority": 0, "definition": {"max-length": 100}}
    file = tmp_path / "broker.json"
    file.write_text(json.dumps({"vhosts": [{"name": "eu"}], "queues": queues, "policies": [dead]}))
    imported(own_broker, str(file))
    celery = {"vhost": "/", "name": "celery", "pattern": "^c", "definition": {"ha-mode": "all", "max-length": 9}}
    binding = {"vhost": "/", "source": "history", "destination": "orders", "destination_type": "queue"}
    placed = {
        1: f'{{"queues": {json.dumps(queues)}, "policies": [',
        245: json.dumps(celery) + ",",
        256: json.dumps({**dead, "priority": 5, "definition": {"max-length": 200}}) + '], "exchanges": [',
        320: json.dumps({"vhost": "/", "name": "history", "type": "x-recent-history"}) + '], "bindings": [',
        371: json.dumps({**binding, "routing_key": "#"}) + "]}",
    }
    file.write_text("\n".join(placed.get(line, "") for line in range(1, 372)))
    asked = "penstock definitions import broker.json"
    assert imported(own_broker, str(file), "--dry-run", code=1) == documented(f"{asked} --dry-run")
    assert imported(own_broker, str(file), "--skip-refused") == documented(f"{asked} --skip-refused")


def test_entries_of_a_virtual_host_are_imported_into_another(
    broker: BrokerProcess, vhost: str, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "old.json"
    queues = [{"vhost": "old", "name": name, "durable": True}, {"vhost": "other", "name": "b", "durable": True}]
    file.write_text(json.dumps({"vhosts": [{"name": "old"}], "queues": queues}))
    refused = run(broker, "definitions", "import", str(file), "--into", vhost, code=1)
    assert "the file has entries of vhost 'old' and of vhost 'other'; choose one to import" in refused
    said = run(broker, "definitions", "import", str(file), "--into", vhost, "--of", "old")
    assert said == "1 queue created; 1 vhost, 1 queue not imported\n"
    assert name in run(broker, "queues", "list", vhost=vhost)
    assert "old" not in run(broker, "vhosts", "list").split()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--of", "old"), "--of chooses entries for --into: give both"),
        (("--into", "new", "--here"), "give one of --here and --into"),
    ],
)
def test_options_of_an_import_into_another_virtual_host_are_checked(
    broker: BrokerProcess, tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    file = tmp_path / "old.json"
    file.write_text("{}")
    assert reason in run(broker, "definitions", "import", str(file), *words, code=2)
