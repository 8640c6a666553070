"""Streams whose batches fail in the middle and are run again: the target has each row once."""

from pathlib import Path

import pytest

from penstock.access.password_hash import hash_password
from tests.spark.conftest import until
from tests.spark.test_delivery import in_queue

pytestmark = pytest.mark.spark

ROWS = 200


def failing_once(folder: Path):
    """Return a function for mapInArrow whose second partition fails the first time, when it is told to."""
    path = str(folder)

    def pass_on(batches):
        import os
        import time

        from pyspark import TaskContext

        for batch in batches:
            if TaskContext.get().partitionId() == 1 and not os.path.exists(f"{path}/failed"):
                while not os.path.exists(f"{path}/go"):
                    time.sleep(0.01)
                open(f"{path}/failed", "w").close()
                raise RuntimeError("the task fails, as the test wants it")
            yield batch

    return pass_on


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["dedup", pytest.param("transactional", marks=pytest.mark.long)])
def test_batch_of_which_one_task_failed_is_in_the_target_once(spark, broker, checkpoint, tmp_path, mode):
    source, target = broker.declare(), broker.declare()
    broker.publish(source, [b"%d" % number for number in range(ROWS)])

    def run(**cut):
        frame = (
            spark.readStream.format("penstock")
            .options(servers=broker.address, subscribe=source, cursor=f"app-{source}", **cut)
            .load()
            .select("value", "message_id")
        )
        frame = frame.mapInArrow(failing_once(tmp_path), frame.schema)
        writer = frame.writeStream.format("penstock").option("servers", broker.address).option("queue", target)
        writer = writer.option("delivery", mode).option("checkpointLocation", checkpoint)
        return writer.trigger(availableNow=True).start()

    query = run(minPartitions="2")
    if mode == "dedup":
        until(lambda: broker.depth(target) == ROWS // 2, "the first partition is in the target")
    (tmp_path / "go").touch()
    with pytest.raises(Exception, match="as the test wants it"):
        query.awaitTermination(300)
    assert broker.depth(target) == (ROWS // 2 if mode == "dedup" else 0)
    assert run(minPartitions="3", maxRecordsPerPartition="30").awaitTermination(300)
    assert sorted(int(body) for body in in_queue(broker, target)) == list(range(ROWS))
    assert broker.depth(source) == 0


@pytest.mark.long
@pytest.mark.parametrize("column", [None, "message_id"])
def test_stream_into_two_brokers_is_run_again_once_each_and_with_the_same_brokers(
    spark, broker, second_broker, checkpoint, tmp_path, column
):
    source, target = broker.declare(), broker.declare()
    second_broker.declare(name=target)
    pair = f"{broker.address},{second_broker.address}"
    broker.publish(source, [b"%d" % number for number in range(ROWS)])

    def run(servers):
        frame = (
            spark.readStream.format("penstock")
            .options(servers=broker.address, subscribe=source, cursor=f"app-{source}", minPartitions="2")
            .load()
            .select("value", "message_id")
        )
        frame = frame.mapInArrow(failing_once(tmp_path), frame.schema)
        writer = frame.writeStream.format("penstock").option("servers", servers).option("queue", target)
        writer = writer.option("spreadColumn", column) if column and "," in servers else writer
        return writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()

    def at_both():
        return broker.depth(target) + second_broker.depth(target)

    query = run(pair)
    until(lambda: at_both() == ROWS // 2, "the first partition is in the target")
    (tmp_path / "go").touch()
    with pytest.raises(Exception, match="as the test wants it"):
        query.awaitTermination(300)
    for servers in (broker.address, second_broker.address):
        with pytest.raises(Exception, match=r"was begun with servers .*, and is run again with this broker alone"):
            run(servers).awaitTermination(300)
    assert at_both() == ROWS // 2
    assert run(pair).awaitTermination(300)
    shares = [in_queue(each, target) for each in (broker, second_broker)]
    assert all(len(share) > ROWS // 5 for share in shares)
    assert sorted(int(body) for share in shares for body in share) == list(range(ROWS))
    assert broker.depth(source) == 0


@pytest.mark.slow
def test_foreach_batch_write_is_recognised_and_a_second_one_to_its_queue_refused(spark, broker, checkpoint):
    source, target = broker.declare(), broker.declare()
    broker.publish(source, [b"%d" % number for number in range(ROWS)])
    frame = (
        spark.readStream.format("penstock")
        .options(servers=broker.address, subscribe=source, cursor=f"app-{source}")
        .load()
        .select("value")
    )
    fails = [True]
    twice = []

    def write(batch, number):
        out = batch.write.format("penstock").mode("append").option("servers", broker.address).option("queue", target)
        out.save()
        if fails:
            fails.clear()
            raise RuntimeError("the driver fails, as the test wants it")
        try:
            out.save()
        except Exception as error:
            twice.append(str(error))

    def run():
        return frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint)

    with pytest.raises(Exception, match="as the test wants it"):
        run().trigger(availableNow=True).start().awaitTermination(300)
    assert broker.depth(target) == ROWS
    assert run().trigger(availableNow=True).start().awaitTermination(300)
    assert sorted(int(body) for body in in_queue(broker, target)) == list(range(ROWS))
    assert len(twice) == 1
    assert "give each write to one target its own txnAppId" in twice[0]


def test_job_with_ids_is_written_once_and_one_without_at_least_once(spark, broker):
    target = broker.declare()
    frame = spark.range(50).selectExpr("CAST(id AS STRING) AS value").coalesce(1)

    def write(**options):
        writer = frame.write.format("penstock").mode("append").options(servers=broker.address, queue=target, **options)
        writer.save()

    for _ in range(2):
        write(txnAppId="hourly", txnVersion="7")
    assert broker.depth(target) == 50
    write(txnAppId="hourly", txnVersion="8", delivery="transactional")
    assert broker.depth(target) == 100
    write()
    assert broker.depth(target) == 150
    with pytest.raises(Exception, match="batch 7 is older"):
        write(txnAppId="hourly", txnVersion="7")
    with pytest.raises(Exception, match="needs ids that stay the same"):
        write(delivery="dedup")


def test_job_of_another_user_is_refused_until_an_operator_hands_it_over(spark, broker):
    target, job = broker.declare(), "nightly"
    hashed = hash_password("secret", b"salt of the test").text()
    broker.control("user.declare", name="etl2", password_hash=hashed, tags=[])
    broker.control("permission.set", user="etl2", vhost="/", configure=".*", write=".*", read=".*")
    frame = spark.range(50).selectExpr("CAST(id AS STRING) AS value").coalesce(1)

    def write(version, **options):
        writer = frame.write.format("penstock").mode("append").options(servers=broker.address, queue=target)
        writer.options(txnAppId=job, txnVersion=str(version), **options).save()

    write(1)
    with pytest.raises(Exception, match=f"belongs to user 'guest'.*penstock sinks assign '{job}' 'etl2'"):
        write(2, user="etl2", password="secret")
    assert broker.depth(target) == 50
    write(2)
    assert broker.control("sink.assign", query=job, user="etl2")["targets"] == 1
    write(2, user="etl2", password="secret")
    assert broker.depth(target) == 100, "what the former user wrote is known"
    write(3, user="etl2", password="secret")
    assert broker.depth(target) == 150
    with pytest.raises(Exception, match="belongs to user 'etl2'"):
        write(4)
