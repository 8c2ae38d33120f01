"""How amounts, shares and names are written for a reader."""

from __future__ import annotations

from fairlead.model.cluster import Cluster
from fairlead.properties.wording import NEXT_TO_NOTHING, counted, next_to_nothing

__all__ = [
    "amount",
    "counted",
    "number",
    "percent",
    "precise_percent",
    "printable",
    "resource_label",
    "short_percent",
    "spread",
]


def number(value: float) -> str:
    """Write an amount with four digits that mean something: ``12,583``, ``82.5``, ``0.0123``."""
    if value != 0 and not 1e-4 <= abs(value) < 1e12:
        return f"{value:.3g}"
    if abs(value) >= 999.95:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def spread(value: float) -> str:
    """Write a deviation or a margin with three digits; the last of them says little already."""
    return number(float(f"{value:.3g}"))


def percent(share: float) -> str:
    """Write a share of one as a percentage: ``100.00 %``, ``7.14 %``, ``0.0021 %``."""
    if next_to_nothing(share):
        return NEXT_TO_NOTHING
    if 0 < abs(share) < 1e-4:
        return f"{100 * share:.2g} %"
    return f"{100 * share:,.2f} %"


def short_percent(share: float) -> str:
    """Write a percentage with three digits, on one line: ``55.1 %``."""
    if next_to_nothing(share):
        return NEXT_TO_NOTHING.replace(" ", "\u00a0")
    return f"{spread(100 * share)}\u00a0%"


def precise_percent(share: float) -> str:
    """Write a percentage with four digits, for shares that differ little: ``0.02857 %``."""
    if next_to_nothing(share):
        return NEXT_TO_NOTHING
    return f"{100 * share:#.4g} %"


def amount(value: float, unit: str) -> str:
    """Write an amount with its unit, if it has one."""
    return f"{number(value)} {unit}".rstrip()


def resource_label(cluster: Cluster, r: int) -> str:
    """Name a resource with its unit: ``memory (GiB)``."""
    unit = cluster.units[r]
    return f"{cluster.resources[r]} ({unit})" if unit else cluster.resources[r]


def printable(name: str) -> str:
    """Escape what would move the cursor or change colours when a name is printed."""
    if name.isprintable():
        return name
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in name)
