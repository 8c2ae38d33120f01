"""The service: the scheduler run live, with a journal, an HTTP API, workers and clients."""
