"""Dynamic DRF: Li, Liu, Zhang and Zhang 2019."""
