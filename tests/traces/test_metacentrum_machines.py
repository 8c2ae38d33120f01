"""Node specifications, machine files, and the groups that a specification allows."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import InputError
from fairlead.traces.logs.metacentrum_machines import (
    Chunk,
    MachineGroup,
    Machines,
    NodeSpec,
    parse_node_spec,
    read_machines,
)
from faults import fault_of, fault_within


def test_a_spec_as_logs_have_it() -> None:
    text = "1:ppn=64:x86_64:^zewura9.cerit-sc.cz+2:ppn=1.5+host=zewura10+3#excl"
    chunks = (
        Chunk(1, 64, ("x86_64", "^zewura9.cerit-sc.cz")),
        Chunk(2, 1.5, ()),
        Chunk(1, 1, ("host=zewura10",)),
        Chunk(3, 1, ()),
    )
    assert parse_node_spec(text) == NodeSpec(chunks, True)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "'' is not a property"),
        ("1:ppn=1e3", "'ppn=1e3' is not a number of cores"),
        ("1:ppn=1:ppn=2", "'ppn=2' is not a number of cores"),
        ("1:ppn=0.0", "asks for 0 nodes or cores"),
        ("1:ppn=1#shared", "unknown suffix '#shared'"),
    ],
)
def test_malformed(text: str, fault: str) -> None:
    found = fault_of(parse_node_spec, text)
    assert found.startswith(f"node specification {text!r}: ")
    assert found.endswith(fault)


PROPERTY = st.sampled_from(["x86_64", "cl_zewura", "^zewura9.cerit-sc.cz", "host=zewura10", "_"])
CHUNK = st.builds(
    Chunk,
    nodes=st.integers(1, 10**9 - 1),
    cores=st.integers(1, 10**12 - 1).map(lambda thousandths: thousandths / 1000),
    properties=st.lists(PROPERTY, max_size=4).map(tuple),
)
SPEC = st.builds(
    NodeSpec, chunks=st.lists(CHUNK, min_size=1, max_size=4).map(tuple), exclusive=st.booleans()
)


@given(SPEC)
def test_text_of_a_spec_means_the_spec(spec: NodeSpec) -> None:
    assert parse_node_spec(str(spec)) == spec
    assert spec.nodes == sum(chunk.nodes for chunk in spec.chunks)


@given(st.text(alphabet="012:+#^=.ppnexcl_a ", max_size=16))
def test_any_text_is_a_spec_or_a_fault(text: str) -> None:
    spec = fault = None
    try:
        spec = parse_node_spec(text)
    except InputError as error:
        fault = error.fault
    if fault is not None:
        assert fault.startswith(f"node specification {text!r}: ")
    else:
        assert spec is not None
        assert spec.nodes >= 1
        assert parse_node_spec(str(spec)) == spec


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
        ("1:^cl_zewura", {"zegox", "zegox-new"}),
        ("1:nodecpus12", {"zegox", "zegox-new"}),
        ("1:nodecpus12:^zegox", {"zegox-new"}),
        ("1:zewura20", {"zewura"}),
        ("host=zewura10.cerit-sc.cz:ppn=2", {"zewura"}),
        ("1:ppn=1:^zewura12.cerit-sc.cz", EVERYWHERE),
        ("1:cl_zewura+2:cl_zegox", {"zewura", "zegox"}),
    ],
)
def test_groups_allowed(spec: str, allowed: set[str]) -> None:
    assert PARK.groups_allowed(parse_node_spec(spec)) == allowed


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("1:cl_tarkil", "property 'cl_tarkil' names no group or node of the machine file"),
        ("1:zewura0.cerit-sc.cz", "property 'zewura0.cerit-sc.cz' names no group"),
        ("1:host=tarkil3", "property 'host=tarkil3' names no group"),
        ("1:nodecpus16", "property 'nodecpus16' names no group"),
        ("1:cl_zewura:cl_zegox", "leaves no group open"),
    ],
)
def test_specs_that_no_machine_meets(spec: str, fault: str) -> None:
    assert fault in fault_of(PARK.groups_allowed, parse_node_spec(spec))


def test_read(tmp_path: Path) -> None:
    path = tmp_path / "machines"
    path.write_bytes(
        b"; a comment\r\n0\tzewura\t20\t80\t1\t529426432\r\n\n1 zegox 48 12 1 94035968 30\n"
    )
    assert read_machines(path).groups == (
        MachineGroup("zewura", 20, 80, 529426432 * 1024),
        MachineGroup("zegox", 48, 12, 94035968 * 1024),
    )


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "holds no machine"),
        (b"0\tzewura\t20\t80\t1\n", "row 1: 5 columns, not 6 (cluster id, name, "),
        (b"0\ta\t1\t1\t1\t1\n1\ta\t1\t1\t1\t1\n", "row 2: duplicate name 'a'"),
        (b"0\ta\t0\t1\t1\t1\n", "row 1: column 3 (nodes): '0' is not a whole number from 1"),
        (b"0\ta\t9\t1\t1\t1\n1\tb\t10000000\t1\t1\t1\n", "row 2: column 3 (nodes): 10,000,000"),
        (b"0\ta\t1\t1\t1\t9999999999999999\n", "row 1: column 6 (RAM per node in KiB)"),
        (b"0\t^a\t1\t1\t1\t1\n", "row 1: column 2 (name): '^a' is not a name"),
        (b"\xff\xfe0\0\n\0", "is text in UTF-16"),
    ],
)
def test_unusable_machine_files(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "machines"
    path.write_bytes(content)
    assert fault_within(path, read_machines, path).startswith(fault)
