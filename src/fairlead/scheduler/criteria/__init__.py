"""Criteria: the order of queues. One file each."""
