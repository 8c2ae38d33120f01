"""Machine files, and which groups a node specification leaves open."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairlead.errors import InputError
from fairlead.traces.metacentrum_machines import (
    MachineGroup,
    Machines,
    parse_node_spec,
    read_machines,
)

PARK = Machines(
    (
        MachineGroup("zewura", 20, 80, 2**39),
        MachineGroup("zegox", 48, 12, 2**36),
        MachineGroup("zegox-new", 4, 12, 2**37),
    )
)
EVERYWHERE = {"zewura", "zegox", "zegox-new"}


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ("1:ppn=4", EVERYWHERE),
        ("1:ppn=4:x86_64:brno:nfs4:mem=3gb", EVERYWHERE),
        ("1:ppn=4:cl_zewura", {"zewura"}),
        ("1:ppn=4:cl_zewura:cl_zewura", {"zewura"}),
        ("1:zegox", {"zegox"}),
        ("1:^cl_zewura", {"zegox", "zegox-new"}),
        ("1:nodecpus80", {"zewura"}),
        ("1:nodecpus12", {"zegox", "zegox-new"}),
        ("1:nodecpus12:^zegox", {"zegox-new"}),
        ("1:^nodecpus12", {"zewura"}),
        ("1:zewura20", {"zewura"}),
        ("1:zegox48.cerit-sc.cz", {"zegox"}),
        ("1:zegox-new4", {"zegox-new"}),
        ("host=zewura10.cerit-sc.cz:ppn=2", {"zewura"}),
        ("1:ppn=1:^zewura12.cerit-sc.cz", EVERYWHERE),
        ("1:ppn=1:^host=zewura12", EVERYWHERE),
        ("1:cl_zewura:^zewura12", {"zewura"}),
        ("1:cl_zewura+2:cl_zegox", {"zewura", "zegox"}),
        ("1:cl_zewura+2", EVERYWHERE),
    ],
)
def test_groups_allowed(spec: str, allowed: set[str]) -> None:
    assert PARK.groups_allowed(parse_node_spec(spec)) == allowed


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("1:cl_tarkil", "property 'cl_tarkil' names no group or node of the machine file"),
        ("1:zewura21", "property 'zewura21' names no group"),
        ("1:zewura0.cerit-sc.cz", "property 'zewura0.cerit-sc.cz' names no group"),
        ("1:^zewura21.cerit-sc.cz", "property 'zewura21.cerit-sc.cz' names no group"),
        ("1:tarkil3.grid.cz", "property 'tarkil3.grid.cz' names no group"),
        ("1:host=tarkil3", "property 'host=tarkil3' names no group"),
        ("1:nodecpus16", "property 'nodecpus16' names no group"),
        ("1:cl_zewura:cl_zegox", "leaves no group open"),
        ("1:^cl_zewura:^nodecpus12", "leaves no group open"),
    ],
)
def test_specs_that_no_machine_meets(spec: str, fault: str) -> None:
    with pytest.raises(InputError) as caught:
        PARK.groups_allowed(parse_node_spec(spec))
    assert fault in caught.value.fault


def test_indifferent_properties_are_those_that_name_no_machine() -> None:
    assert PARK.indifferent(("x86_64", "cl_zewura", "zegox3", "mem=3gb")) == {"x86_64", "mem=3gb"}


def test_read(tmp_path: Path) -> None:
    path = tmp_path / "machines"
    path.write_bytes(
        b"; a comment\r\n0\tzewura\t20\t80\t1\t529426432\r\n\n1 zegox 48 12 1 94035968\n"
    )
    assert read_machines(path).groups == (
        MachineGroup("zewura", 20, 80, 529426432 * 1024),
        MachineGroup("zegox", 48, 12, 94035968 * 1024),
    )


@pytest.mark.parametrize(
    ("content", "place", "fault"),
    [
        (b"", "", "holds no machine"),
        (b"0\tzewura\t20\t80\t1\n", "row 1", "5 columns, not 6 (cluster id, name, "),
        (b"0\ta\t1\t1\t1\t1\n1\ta\t1\t1\t1\t1\n", "row 2", "duplicate name 'a'"),
        (b"0\ta\t0\t1\t1\t1\n", "row 1", "column 3 (nodes): '0' is not a positive"),
        (b"0\ta\t9\t1\t1\t1\n1\tb\t10000000\t1\t1\t1\n", "row 2", "column 3 (nodes): 10,000,000"),
        (b"0\ta\t1\tx\t1\t1\n", "row 1", "column 4 (CPUs per node): 'x' is not"),
        (b"0\ta\t1\t1\t1\t-5\n", "row 1", "column 6 (RAM per node in KiB): '-5' is not"),
        (b"0\ta\t1\t1\t1\t9999999999999999\n", "row 1", "column 6 (RAM per node in KiB)"),
        (b"0\t^a\t1\t1\t1\t1\n", "row 1", "column 2 (name): '^a' is no name"),
        (b"\xfe0\n", "row 1", "not text in UTF-8"),
        (b"\xff\xfe0\0\n\0", "", "is text in UTF-16"),
    ],
)
def test_unusable_machine_files(tmp_path: Path, content: bytes, place: str, fault: str) -> None:
    path = tmp_path / "machines"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_machines(path)
    assert (caught.value.source, caught.value.place) == (str(path), place)
    assert caught.value.fault.startswith(fault)
