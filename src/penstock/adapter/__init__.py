"""What the bytes of a protocol do to the broker, and what the broker then says in that protocol.

Pure: a connection is fed with octets and the time, and gives octets back. The sockets belong to :mod:`penstock.server`.
"""
