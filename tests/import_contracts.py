"""Contract of import-linter: modules whose names begin with an underscore are private to a folder.

`pyproject.toml` names it in `contract_types`; `lint-imports` checks it.
"""

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class PrivateModules(Contract):
    """Only the folder that holds a module or package ``_name`` may import it."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        found = [
            f"{importer} imports {imported}"
            for importer in sorted(graph.modules)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if not all(is_inside(importer, folder) for folder in private_folders(imported))
        ]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["found"]:
            output.print_error(line)


def private_folders(module: str) -> list[str]:
    """Return the packages that hold the private parts of a module's path."""
    parts = module.split(".")
    return [
        ".".join(parts[:k])
        for k, part in enumerate(parts)
        if part.startswith("_") and not part.startswith("__")
    ]


def is_inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
