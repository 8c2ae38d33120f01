"""Criteria: the order in which queues are served. Cycles of one criterion are in its module."""
