"""A Celery application with the classic configuration for RabbitMQ; its tasks write down each of their runs."""

from __future__ import annotations

import os
from pathlib import Path

from celery import Celery, Task

app = Celery("tests", broker=os.environ["BROKER_URL"], backend="rpc://")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    result_expires=60,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
)
if "QUORUM" in os.environ:
    _, _, page = Path("docs/how-to/celery.md").read_text().partition("## ETA, countdown and retries\n")
    lines = [line for line in page.split("```")[1].splitlines() if line.startswith("app.conf.")]
    exec("\n".join(lines))


@app.task
def square(number: int) -> int:
    """Return the square; leave a line for every run."""
    with Path(os.environ["RUNS"]).open("a") as runs:
        runs.write(f"{number}\n")
    return number * number


@app.task(bind=True, max_retries=1)
def second_try(self: Task[..., int], number: int) -> int:
    """Fail at first, and return the number of retries when it comes again, a second later."""
    if self.request.retries == 0:
        raise self.retry(countdown=number)
    return self.request.retries
