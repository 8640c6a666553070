"""What happens to a message: it is charged, routed, queued, delivered, and settled or returned.

Pure like :mod:`penstock.flow`, on which it rests. It knows no protocol: the adapters translate.
"""
