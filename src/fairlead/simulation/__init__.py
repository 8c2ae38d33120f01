"""What a policy would have done: traces replayed event by event, in processes, runs kept."""
