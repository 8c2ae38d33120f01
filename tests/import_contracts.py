"""Contracts of import-linter on private and listed modules.

`pyproject.toml` names them in `contract_types`; `lint-imports` checks them.
"""

import ast
from importlib.util import find_spec
from pathlib import Path

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class PrivateModules(Contract):
    """Only the folder that holds a module or package ``_name`` may import it."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        return _check(
            graph,
            lambda importer, imported: all(
                is_inside(importer, folder) for folder in private_folders(imported)
            ),
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        _render(check)


class ListedModules(Contract):
    """A package imports from another one only modules listed in its packages' ``__all__``."""

    importer = fields.StringField()
    imported = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002
        return _check(
            graph,
            lambda importer, imported: (
                not is_inside(importer, self.importer)
                or not is_inside(imported, self.imported)
                or is_listed(imported)
            ),
        )

    def render_broken_contract(self, check: ContractCheck) -> None:
        _render(check)


def _check(graph, may_import) -> ContractCheck:
    found = [
        f"{importer} imports {imported}"
        for importer in sorted(graph.modules)
        for imported in sorted(graph.find_modules_directly_imported_by(importer))
        if not may_import(importer, imported)
    ]
    return ContractCheck(kept=not found, metadata={"found": found})


def _render(check: ContractCheck) -> None:
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


def is_listed(module: str) -> bool:
    """Return whether each package on the module's path, but the first, lists the next part.

    A package without ``__all__`` lists everything.
    """
    parts = module.split(".")
    for k in range(2, len(parts)):
        spec = find_spec(".".join(parts[:k]))
        listed = names_listed_in(Path(spec.origin).read_text(encoding="utf-8"))
        if listed is not None and parts[k] not in listed:
            return False
    return True


def names_listed_in(source: str) -> list[str] | None:
    """Return the names of ``__all__`` in a module's source, None without it."""
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return ast.literal_eval(statement.value)
    return None
