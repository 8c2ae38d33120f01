"""Engines that run tasks: their interface, and the loop that applies a service's orders to one."""

__all__ = ["protocol", "worker_loop"]
