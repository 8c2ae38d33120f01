"""Parts of one GPU that pods take by KAI's annotations.

Such a pod requests no GPU. KAI and Run:ai run a pod for each shared GPU, in a namespace of their
own, which requests all of it. Sources: KAI scheduler, "GPU Sharing"; Run:ai, "Fractions".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairlead.errors import InputError
from fairlead.model.quantity import show, typed_number

# The resource of which these are parts.
SHARED_GPU = "nvidia.com/gpu"
HOLDERS = ("kai-resource-reservation", "runai-reservation")  # namespaces
# Annotations that ask for a part of a GPU, and for one of each of several GPUs.
FRACTION = "gpu-fraction"
GPU_PARTS = (FRACTION, "gpu-memory")
SEVERAL = "gpu-fraction-num-devices"


def gpu_part(annotations: Mapping[str, Any]) -> str:
    """Return the annotation that asks for a part of a GPU, or nothing."""
    return next((name for name in GPU_PARTS if name in annotations), "")


def part_of_one_gpu(annotations: Mapping[str, Any], place: str) -> float:
    """Return the part of one GPU that a pod takes; 0 for parts by memory or of several GPUs.

    Raises InputError for a fraction that is not between 0 and 1.
    """
    if FRACTION not in annotations or str(annotations.get(SEVERAL, "1")) != "1":
        return 0.0
    where = f"{place}.metadata.annotations.{FRACTION}"
    try:
        part = typed_number(str(annotations[FRACTION]))
    except ValueError:
        part = 0.0
    if not 0 < part < 1:
        raise InputError(f"must be a part of a GPU, not {show(annotations[FRACTION])}", where)
    return part
