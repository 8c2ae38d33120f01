"""Schedulers for private clouds: Kesidis et al. 2018."""
