from pyspark_amqp.spool.tags import Tags


def test_tags_are_taken_in_order_up_to_a_number():
    tags = Tags()
    for tag in range(1, 6):
        tags.add(tag, 10 + tag, float(tag))
    assert tags.take(10) == (0, [])
    assert tags.take(13) == (3, [11, 12, 13])
    assert (len(tags), tags.age(10.0)) == (2, 6.0)
    tags.clear()
    assert (tags.take(99), tags.age(10.0)) == ((0, []), 0.0)


def test_tag_behind_one_that_may_not_be_acknowledged_waits_for_it():
    tags = Tags()
    tags.add(1, 7, 0.0)
    tags.add(2, 3, 0.0)  # It came again, after a later message.
    assert tags.take(5) == (0, [])
    assert tags.take(7) == (2, [7, 3])
