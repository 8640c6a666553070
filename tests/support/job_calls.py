"""Requests on the control exchange whose answers come turns later, and jobs of a number of steps."""

from __future__ import annotations

import json
from typing import Any

from penstock.content.properties import Properties
from penstock.driver.driver import BrokerDriver
from penstock.flow.progress import WorkProgress
from penstock.flow.work import Steps
from penstock.management.jobs import Job, Subject
from penstock.protocols.amqp091.content_frames import body_of
from tests.support.access_of import access_of
from tests.support.driven_connection import Dialogue, publish

TURNS_MOST = 5_000
"""Turns after which a request counts as never answered."""
STEP_WORK = 25
"""Units of work of each step of `counting`."""


class Asker:
    """A client of the control exchange, with a queue of its own for the answers."""

    def __init__(self, driver: BrokerDriver, name: str = "answers") -> None:
        self.driver = driver
        self.client = Dialogue(driver)
        self.queue = driver.broker.vhosts["/"].declare_queue(name, {}, False, False, None, None)
        driver.scheduler.begin_turn()

    def send(self, operation: str, **fields: object) -> None:
        """Request an operation; make no turn."""
        body, properties = json.dumps(fields).encode(), Properties(reply_to=self.queue.name)
        frames = publish(operation, body, properties=properties, exchange="penstock.control")
        self.driver.scheduler.begin_turn()
        self.driver.scheduler.receive(self.client.connection, frames)

    def answers(self) -> list[Any]:
        """Return all answers so far."""
        return [json.loads(body_of(message.content)) for message in self.queue.ready_queue.messages()]

    def ask(self, operation: str, **fields: object) -> Any:
        """Request an operation; make turns until it is answered."""
        before = self.queue.waiting()
        self.send(operation, **fields)
        for _ in range(TURNS_MOST):
            if self.queue.waiting() > before:
                return self.answers()[-1]
            turn(self.driver)
        raise AssertionError(f"{operation} is not answered after {TURNS_MOST} turns")


def turn(driver: BrokerDriver) -> int:
    """Make a turn; return its units of work."""
    before = int(driver.broker.work.done)
    driver.scheduler.begin_turn()
    driver.scheduler.serve()
    driver.run_turn()
    return int(driver.broker.work.done) - before


def counting(driver: BrokerDriver, progress: WorkProgress, count: int) -> Steps[dict[str, object]]:
    """Count so many steps; return the number."""
    progress.count_all(count, "steps")
    for _ in range(count):
        driver.broker.work.done += STEP_WORK
        progress.done += 1
        yield
        progress.check()
    return {"counted": count}


def start_counting(driver: BrokerDriver, count: int, *subjects: Subject, user: str = "guest") -> Job:
    """Start a job of so many steps."""
    job = driver.jobs.add("test.count", access_of(driver.broker, user), user, subjects)
    driver.start_job(job, _ended(driver.jobs.carried_out(job, counting(driver, job, count))))
    return job


def _ended(steps: Steps[dict[str, object]]) -> Steps[None]:
    """Do steps of a job that nobody waits for."""
    try:
        yield from steps
    except Exception:
        return
