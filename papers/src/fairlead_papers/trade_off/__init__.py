"""``trade-off``: tasks, the least share and envy under alpha-fairness, for each alpha."""
