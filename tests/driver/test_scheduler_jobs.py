"""Long jobs: beside changes, fair among themselves, and alone with the changes where they must be."""

from __future__ import annotations

import pytest

from penstock.driver.driver import BrokerDriver
from penstock.flow.progress import alone
from penstock.flow.work import ASKING_SHARE, JOB_SLICE, JOBS_PART, JOBS_SHARE, SHARE, Steps
from penstock.management.jobs import CANCELLED, DONE, HELD, RUNNING, WAITING, Job, Subject
from tests.support.access_of import access_of
from tests.support.job_calls import STEP_WORK, Asker, start_counting, turn

POLICY = {"name": "p", "pattern": "^q", "definition": {"max-length": 5}}


def test_policy_is_set_within_one_share_while_a_job_of_100000_steps_runs(driver: BrokerDriver) -> None:
    operator = Asker(driver)
    job = start_counting(driver, 100_000)
    for _ in range(10):
        turn(driver)
    assert job.state == RUNNING
    operator.send("policy.set", **POLICY)
    begun = driver.broker.work.done
    turns = 0
    while not operator.answers():
        turn(driver)
        turns += 1
    assert turns <= 1
    assert driver.broker.work.done - begun <= SHARE + ASKING_SHARE
    assert (operator.answers()[0]["name"], job.state) == ("p", RUNNING)
    assert 0 < job.done < 10_000
    while job.state == RUNNING:
        turn(driver)
    assert (job.state, job.result) == (DONE, {"counted": 100_000})


def test_jobs_have_a_part_of_what_the_turn_has_used_and_a_least_share(driver: BrokerDriver) -> None:
    start_counting(driver, 100_000)
    assert JOBS_SHARE <= turn(driver) <= JOBS_SHARE + STEP_WORK
    driver.start(endless(driver))
    part = SHARE // JOBS_PART
    assert part > JOBS_SHARE
    assert SHARE + part <= turn(driver) <= SHARE + part + 3 * STEP_WORK


def endless(driver: BrokerDriver) -> Steps[None]:
    while True:
        driver.broker.work.done += 10
        yield


def test_jobs_share_their_units_fairly(driver: BrokerDriver) -> None:
    jobs = [start_counting(driver, 10_000) for _ in range(2)]
    for _ in range(200):
        turn(driver)
    late = start_counting(driver, 10_000)
    before = [int(job.done) for job in jobs]
    assert abs(before[0] - before[1]) * STEP_WORK <= JOB_SLICE + STEP_WORK
    for _ in range(200):
        turn(driver)
    since = [int(job.done) - done for job, done in zip(jobs, before, strict=True)]
    slices = 2 * (JOB_SLICE + STEP_WORK)
    assert all(abs(done - late.done) * STEP_WORK <= slices for done in since), "one that comes later has no arrears"
    assert late.done > 100


def test_continued_job_has_its_share_beside_a_later_job(driver: BrokerDriver) -> None:
    held = start_counting(driver, 100_000)
    for _ in range(200):
        turn(driver)
    held.hold("queue 'q' is full")
    before = int(held.done)
    late = start_counting(driver, 100_000)
    for _ in range(2):
        turn(driver)
    late_before = int(late.done)
    held.go_on()
    for _ in range(100):
        turn(driver)
    counts = int(held.done) - before, int(late.done) - late_before
    assert abs(counts[0] - counts[1]) * STEP_WORK <= 2 * (JOB_SLICE + STEP_WORK)
    assert min(counts) > 100


def test_job_about_the_same_object_waits_while_other_jobs_run(driver: BrokerDriver) -> None:
    queue = Subject("queue", "q", "/")
    first, second = start_counting(driver, 500, queue), start_counting(driver, 500, queue)
    other = start_counting(driver, 500, Subject("queue", "other", "/"))
    turn(driver)
    assert [job.state for job in (first, second, other)] == [RUNNING, WAITING, RUNNING]
    assert second.reason() == "it waits for job 1 (test.count, queue 'q' in vhost '/')"
    while second.state == WAITING:
        assert second.done == 0
        turn(driver)
    assert first.state == DONE
    while driver.run_turn():
        pass
    assert [job.state for job in (first, second, other)] == [DONE] * 3


def test_waiting_job_keeps_no_turn_busy(driver: BrokerDriver) -> None:
    job = driver.jobs.add("test.hold", access_of(driver.broker), "guest")
    job.hold("queue 'q' is full")
    driver.start_job(job, endless(driver))
    assert not driver.run_turn()
    assert not driver.scheduler.has_jobs()


def held_until_open(driver: BrokerDriver, job: Job, opened: list[bool]) -> Steps[dict[str, object]]:
    while not opened:
        job.hold("queue 'target' is full")
        yield
    job.go_on()
    return {}


def test_held_job_does_a_step_each_second_and_goes_on_when_it_may(driver: BrokerDriver) -> None:
    opened: list[bool] = []
    job = driver.jobs.add("test.hold", access_of(driver.broker), "guest")
    driver.start_job(job, _quiet(driver.jobs.carried_out(job, held_until_open(driver, job, opened))))
    while driver.run_turn():
        pass
    assert (job.state, job.reason()) == (HELD, "queue 'target' is full")
    driver.tick()
    while driver.run_turn():
        pass
    assert job.state == HELD
    opened.append(True)
    driver.tick()
    while driver.run_turn():
        pass
    assert job.state == DONE


def _quiet(steps: Steps[dict[str, object]]) -> Steps[None]:
    yield from steps


def test_step_alone_and_changes_wait_for_each_other(driver: BrokerDriver) -> None:
    seen: list[str] = []

    def change(name: str, count: int) -> Steps[None]:
        for _ in range(count):
            seen.append(name)
            driver.broker.work.done += SHARE
            yield

    def steps(job: Job) -> Steps[dict[str, object]]:
        seen.append("job")
        yield
        yield from alone(job, change("alone", 3))
        seen.append("after")
        return {}

    job = driver.jobs.add("test.alone", access_of(driver.broker), "guest")
    driver.start(change("first", 3))
    driver.start_job(job, _quiet(driver.jobs.carried_out(job, steps(job))))
    turn(driver)
    driver.start(change("last", 2))
    while driver.run_turn():
        pass
    assert seen.count("alone") == 3
    order = [name for name in seen if name not in ("job", "after")]
    assert order == ["first"] * 3 + ["alone"] * 3 + ["last"] * 2
    assert job.state == DONE


def test_job_that_waits_is_cancelled_without_a_step(driver: BrokerDriver) -> None:
    queue = Subject("queue", "q", "/")
    first, second = start_counting(driver, 50_000, queue), start_counting(driver, 500, queue)
    third = start_counting(driver, 500, queue)
    turn(driver)
    driver.jobs.cancel(second, "anna")
    turn(driver)
    assert (second.state, second.error, second.done) == (CANCELLED, "cancelled by user 'anna'", 0)
    assert (first.state, third.state, third.waits_for) == (RUNNING, WAITING, first)


@pytest.mark.parametrize("count", [1, 3])
def test_failure_that_nobody_expects_ends_a_job_alone(driver: BrokerDriver, count: int) -> None:
    def broken() -> Steps[dict[str, object]]:
        for _ in range(count):
            yield
        raise KeyError("odd")

    job = driver.jobs.add("test.broken", access_of(driver.broker), "guest")
    driver.start_job(job, _quiet(driver.jobs.carried_out(job, broken())))
    other = start_counting(driver, 100)
    while driver.run_turn():
        pass
    assert (job.state, job.error) == ("failed", "an internal error (KeyError); the log has more")
    assert other.state == DONE
