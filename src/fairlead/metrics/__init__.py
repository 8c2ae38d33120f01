"""What a policy did to a cluster and its users, in figures: a run log, measured."""
