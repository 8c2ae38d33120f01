"""PS-DSF without a central scheduler: servers divide their own capacity, and send messages."""
