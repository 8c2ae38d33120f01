"""Properties that an answer can have or lack, checked with witnesses."""
