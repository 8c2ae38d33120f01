"""The cost of alpha-fairness: tasks, the least share and envy for each alpha."""
