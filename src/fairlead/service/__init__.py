"""The service: the scheduler as one leaves it running, with a journal, HTTP and workers."""
