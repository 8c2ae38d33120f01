"""Work in pieces that know nothing of each other: on the processors of this machine, or on Ray."""
