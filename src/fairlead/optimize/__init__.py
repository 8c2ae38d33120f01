"""Mathematics without the word "fair"."""
