"""Delivery tags of a spool: acknowledged in order, up to a number."""

from pyspark_amqp.spool.consumer import Tags
from tests.spark.amqp.spool.test_rows import delivery


def test_tags_are_taken_in_order_up_to_a_number():
    tags = Tags()
    came = [delivery(tag=tag) for tag in range(1, 6)]
    for each in came:
        tags.add(each, 10 + each.tag, float(each.tag))
    assert tags.take(10) == ([], [])
    assert tags.take(13) == (came[:3], [11, 12, 13])
    assert (len(tags), tags.age(10.0)) == (2, 6.0)
    tags.clear()
    assert (tags.take(99), tags.age(10.0)) == (([], []), 0.0)


def test_tag_waits_for_an_earlier_tag_with_a_later_position():
    tags = Tags()
    later, again = delivery(tag=1), delivery(tag=2)
    tags.add(later, 7, 0.0)
    tags.add(again, 3, 0.0)
    assert tags.take(5) == ([], [])
    assert tags.take(7) == ([later, again], [7, 3])
