"""The broker's core: messages are charged, routed, queued, delivered, and settled or requeued.

Pure like :mod:`penstock.flow`, on which the core builds, and independent of protocols: the packages in `protocols`
translate.
"""
