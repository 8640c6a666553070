"""Publish and receive with blocking calls."""

import os

import penstock.sync

URL = os.environ.get("PENSTOCK_URL", "amqp://guest:guest@127.0.0.1:5672/")

with penstock.sync.connect(URL) as connection:
    connection.declare_queue("parcels")
    result = connection.publisher("parcels").send_many(b"parcel %d" % number for number in range(1000))
    print(f"{result.confirmed} parcels are confirmed")
    with connection.receiver("parcels") as receiver:
        receiver.receive(timeout=5).accept()
        print("one is done")
