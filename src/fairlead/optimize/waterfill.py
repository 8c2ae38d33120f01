"""Fill one server by level: the procedure that DRF and every server of PS-DSF run.

Compiled with numba; the first call in a fresh installation compiles and caches.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from fairlead.model.cluster import FloatArray
