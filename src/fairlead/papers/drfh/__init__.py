"""DRFH: Wang, Liang and Li 2014."""
