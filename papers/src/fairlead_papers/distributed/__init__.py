"""PS-DSF without a central scheduler: each server divides itself, by its clock and messages."""
