"""What happens over time: servers that decide on their own, each by what it knows."""
