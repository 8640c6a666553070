"""The flights: all of them, shared out, and added up."""

from demo import data


def test_data_set_holds_every_flight_that_it_is_known_for():
    columns, lines = data.read()
    assert len(lines) == data.FLIGHTS
    assert columns[:3] == ["year", "month", "day"]
    assert all(line.count(b",") == len(columns) - 1 for line in lines)


def test_flight_is_in_exactly_one_share():
    _columns, lines = data.read()
    shares = [data.share(lines[:1_003], part, 4) for part in range(4)]
    assert sorted(line for share in shares for line in share) == sorted(lines[:1_003])


def test_totals_of_a_few_thousand_flights_are_those_of_pandas():
    import pandas

    columns, lines = data.read()
    few = 5_000
    found = data.totals(columns, lines[:few])
    frame = pandas.read_csv(data.archive(), nrows=few)
    for key, group in frame.groupby(["carrier", "hour"]):
        ours = found.pop(key)
        assert ours.flights == len(group)
        assert ours.cancelled == group["dep_delay"].isna().sum()
        assert ours.departure_delay == group["dep_delay"].sum()
        assert ours.arrival_delay == group["arr_delay"].sum()
    assert not found


def test_checksum_differs_if_one_flight_is_lost_and_another_doubled():
    columns, lines = data.read()
    twins = [line for line in lines[:5_000] if b",UA," in line and line.split(b",")[16] == b"6"]
    assert len(twins) > 2
    honest, cheated = data.totals(columns, twins), data.totals(columns, [twins[1], *twins[1:]])
    assert honest["UA", 6].flights == cheated["UA", 6].flights
    assert honest["UA", 6].checksum != cheated["UA", 6].checksum
