"""Rules on imports that import-linter checks by a contract of this repository."""

import pytest
from grimp import ImportGraph

from import_contracts import ListedModules, PrivateModules


def check_of(contract, importer, imported):
    graph = ImportGraph()
    for module in (importer, imported):
        graph.add_module(module)
    graph.add_import(importer=importer, imported=imported)
    return contract.check(graph, verbose=False)


@pytest.mark.parametrize(
    ("importer", "imported", "kept"),
    [
        ("house.room.corner.table", "house.room._drawer", True),
        ("house.room", "house.room._drawer", True),
        ("house", "house.room._drawer", False),
        ("house.rooms.table", "house.room._drawer", False),
        ("house.room._shelf.book", "house.room._shelf._page", True),
        ("house.room.table", "house.room._shelf._page", False),
        ("house.garden", "house.__main__", True),
    ],
)
def test_private_modules_are_imported_in_their_folder(importer, imported, kept):
    contract = PrivateModules("private", session_options={}, contract_options={})
    check = check_of(contract, importer, imported)
    assert check.metadata["found"] == ([] if kept else [f"{importer} imports {imported}"])
    assert check.kept is kept


@pytest.mark.parametrize(
    ("importer", "imported", "kept"),
    [
        ("fairlead_papers.drfh", "fairlead.simulation.metrics.summary", True),
        ("fairlead_papers.drfh", "fairlead.simulation.metrics.fairness_error", False),
        ("fairlead_papers.drfh", "fairlead.errors", True),
        ("fairlead.report", "fairlead.simulation.metrics.fairness_error", True),
    ],
)
def test_papers_import_only_listed_modules(importer, imported, kept):
    options = {"importer": "fairlead_papers", "imported": "fairlead"}
    contract = ListedModules("listed", session_options={}, contract_options=options)
    assert check_of(contract, importer, imported).kept is kept
