"""Receiving client of AMQP 1.0: one connection, one session, links that receive; one thread, no event loop.

`login` is SASL, `connection` has frames and idle time-outs, `session` the links with their credit and settlement, and
`messages` makes a delivery with the properties of AMQP 0-9-1 of a message. The codec is `penstock.wire.amqp10`.
"""
