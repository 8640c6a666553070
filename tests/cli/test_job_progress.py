"""The line of progress that a command writes while its job runs."""

from __future__ import annotations

import io
import json
import signal
import threading

import pytest

import penstock.sync
from penstock.cli.job_progress import CLEARED, show_until, shown_progress
from penstock.client.errors import ControlError
from tests.support.brokers import PATIENCE, BrokerProcess, eventually
from tests.support.commands import run, started

LONG = json.dumps({"queues": [{"vhost": "/", "name": f"q{number}"} for number in range(19_000)]})


class Screen(io.StringIO):
    """A terminal; `seen` is set by its first line of progress."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = threading.Event()

    def write(self, text: str) -> int:
        if text != CLEARED:
            self.seen.set()
        return super().write(text)


def test_progress_is_that_of_the_job_of_the_named_connection(own_broker: BrokerProcess) -> None:
    ended, screen = threading.Event(), Screen()
    url = own_broker.url
    with penstock.sync.connect(url) as control, penstock.sync.connect(url, name="import-1") as named:
        other = control.import_definitions(LONG, detach=True)
        waiting = named.import_definitions("{}", detach=True)
        ending = threading.Thread(target=lambda: [screen.seen.wait(20), ended.set()])
        ending.start()
        show_until(control, "import-1", ended, screen, 200)
        ending.join()
        named.request("job.cancel", id=other["id"])
    line = f"{CLEARED}job {waiting['id']} is waiting: it waits for job {other['id']} (definitions.import, all vhosts)"
    assert screen.getvalue().startswith(line)
    assert screen.getvalue().endswith(CLEARED), "the line is gone when the command is done"


def test_progress_is_not_written_where_standard_error_is_no_terminal(
    own_broker: BrokerProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    before = threading.active_count()
    with shown_progress(own_broker.url, "import-1"):
        assert threading.active_count() == before
    assert capsys.readouterr().err == ""


def test_command_that_is_interrupted_names_the_job_that_goes_on(own_broker: BrokerProcess) -> None:
    run(own_broker, "queues", "declare", "failed", "capacity-messages=10")
    run(own_broker, "queues", "declare", "orders", "capacity-messages=2", "hold-deadline=0")
    run(own_broker, "queues", "publish", "failed", "one", "two", "three", "four")
    with started(own_broker, "queues", "move", "failed", "orders") as process:
        with penstock.sync.connect(own_broker.url) as control:
            jobs = lambda: control.request("job.list")["jobs"]  # noqa: E731
            held = eventually(lambda: [job for job in jobs() if job["reason"]], "the move waits for room")
            number = held[0]["id"]
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130
        line = process.stderr.read()
    assert line.startswith(f"penstock: interrupted: job {number} goes on (")
    assert line.endswith(f"; `penstock jobs cancel {number}` cancels it\n")
    assert "of 4 messages" in line
    run(own_broker, "jobs", "cancel", str(number))


def test_error_of_the_command_passes_through_its_progress() -> None:
    with pytest.raises(ControlError), shown_progress("amqp://127.0.0.1:1", "import-1"):
        raise ControlError(406, "precondition-failed", "refused")
