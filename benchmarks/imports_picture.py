"""Draw docs/pictures/imports.svg: the imports between packages, the lowest at the bottom.

    python benchmarks/imports_picture.py

Fails if packages import each other in a cycle. An arrow points to an imported package. Arrows that
follow from others are left out: a package may use all packages that it can reach by arrows.
"""

from __future__ import annotations

from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import matplotlib as mpl
from matplotlib.figure import Figure

from growth_pictures import STYLE

PICTURE = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "imports.svg"
EVERYWHERE = {"errors", "garbage_collection", "source_digest", "compiled"}  # small, used by most


def read_imports() -> dict[str, set[str]]:
    """Return the packages that each package of the product and the papers imports."""
    graph = grimp.build_graph("fairlead", "fairlead_papers")
    names = {module: module for module in graph.find_children("fairlead")}
    names = {module: module.removeprefix("fairlead.") for module in names}
    names["fairlead_papers"] = "papers"
    imports: dict[str, set[str]] = {name: set() for name in names.values()}
    for module, name in names.items():
        for other, imported in names.items():
            if name != imported and graph.direct_import_exists(
                importer=module, imported=other, as_packages=True
            ):
                imports[name].add(imported)
    kept = {name for name in imports if name not in EVERYWHERE and not name.startswith("_")}
    return {name: imports[name] & kept for name in sorted(kept)}


def reduce_to_needed(imports: dict[str, set[str]], order: list[str]) -> dict[str, set[str]]:
    """Return the imports that do not follow from others; `order` has imported packages first."""
    reach: dict[str, set[str]] = {}
    needed = {}
    for name in order:
        reach[name] = imports[name].union(*(reach[other] for other in imports[name]))
        needed[name] = {
            other
            for other in imports[name]
            if not any(other in reach[third] for third in imports[name])
        }
    return needed


def main() -> None:
    """Order the packages, and write the picture."""
    imports = read_imports()
    order = list(TopologicalSorter(imports).static_order())  # raises CycleError
    depth = dict.fromkeys(order, 0)  # just below the lowest package that imports it
    for name in reversed(order):
        for other in imports[name]:
            depth[other] = max(depth[other], depth[name] + 1)
    rows = [
        [name for name in order if depth[name] == row] for row in range(max(depth.values()) + 1)
    ]
    place = {
        name: (2.0 * k - (len(row) - 1), -float(y))
        for y, row in enumerate(rows)
        for k, name in enumerate(row)
    }
    figure = Figure((9.6, 0.62 * len(rows) + 0.4), layout="constrained", facecolor="white")
    axes = figure.subplots()
    for name, others in reduce_to_needed(imports, order).items():
        for other in others:
            (x, y), (to_x, to_y) = place[name], place[other]
            bend = 0.25 if x != to_x else 1.0
            if abs(y - to_y) == 1 or (x != to_x and (x, y - 1) in place.values()):
                bend = 0.0  # else through the package below
            axes.annotate(
                "",
                (to_x, to_y + 0.2),
                (x, y - 0.2),
                arrowprops={
                    "arrowstyle": "->",
                    "color": "#888888",
                    "connectionstyle": f"arc3,rad={bend}",
                },
            )
    for name, (x, y) in place.items():
        box = {"boxstyle": "round,pad=0.35", "facecolor": "#e8f0f8", "edgecolor": "#2a78b8"}
        axes.text(x, y, name, ha="center", va="center", fontsize=10, bbox=box)
    width = max(abs(x) for x, _ in place.values()) + 1.2
    axes.set(xlim=(-width, width), ylim=(0.4 - len(rows), 0.6))
    axes.axis("off")
    figure.savefig(PICTURE, metadata={"Date": None, "Creator": None})


if __name__ == "__main__":
    with mpl.rc_context(STYLE):
        main()
