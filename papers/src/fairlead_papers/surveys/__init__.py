"""``audit --random``: audit mechanisms on random problems, and find the smallest witnesses."""
