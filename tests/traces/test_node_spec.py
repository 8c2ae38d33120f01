"""PBS node specifications: a table, and what holds for all of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.errors import InputError
from fairlead.traces.metacentrum_machines import Chunk, NodeSpec, parse_node_spec

SPECS = {
    "1:ppn=12": NodeSpec((Chunk(1, 12, ()),)),
    "2": NodeSpec((Chunk(2, 1, ()),)),
    "ppn=3": NodeSpec((Chunk(1, 3, ()),)),
    "1:ppn=1.5:brno": NodeSpec((Chunk(1, 1.5, ("brno",)),)),
    "1:ppn=64:x86_64:cl_zewura#excl": NodeSpec((Chunk(1, 64, ("x86_64", "cl_zewura")),), True),
    "1:ppn=1+2:ppn=2": NodeSpec((Chunk(1, 1, ()), Chunk(2, 2, ()))),
    "zewura19.cerit-sc.cz:ppn=12:brno": NodeSpec((Chunk(1, 12, ("zewura19.cerit-sc.cz", "brno")),)),
    "1:^a17.x-y.cz:^b:ppn=24": NodeSpec((Chunk(1, 24, ("^a17.x-y.cz", "^b")),)),
    "1:ppn=5:host=zewura10": NodeSpec((Chunk(1, 5, ("host=zewura10",)),)),
    "1:ppn=14:mem=3gb": NodeSpec((Chunk(1, 14, ("mem=3gb",)),)),
}


@pytest.mark.parametrize("text", SPECS)
def test_table(text: str) -> None:
    assert parse_node_spec(text) == SPECS[text]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "'' is no property"),
        ("1:", "'' is no property"),
        ("1:ppn=1+", "'' is no property"),
        ("1::ppn=1", "'' is no property"),
        ("1:ppn=", "'ppn=' is no number of cores"),
        ("1:ppn=two", "'ppn=two' is no number of cores"),
        ("1:ppn=-2", "'ppn=-2' is no number of cores"),
        ("1:ppn=nan", "'ppn=nan' is no number of cores"),
        ("1:ppn=1e3", "'ppn=1e3' is no number of cores"),
        ("1:ppn=1:ppn=2", "'ppn=2' is no number of cores"),
        ("0:ppn=1", "asks for 0 nodes or cores"),
        ("1:ppn=0.0", "asks for 0 nodes or cores"),
        ("1:ppn=1:4", "'4' is no property"),
        ("1:^^a", "'^^a' is no property"),
        ("1:ppn=1#shared", "unknown suffix '#shared'"),
        ("1:ppn=1#", "unknown suffix '#'"),
        ("1:ppn=1#excl#excl", "unknown suffix '#excl#excl'"),
    ],
)
def test_malformed(text: str, fault: str) -> None:
    with pytest.raises(InputError, match="node specification") as caught:
        parse_node_spec(text)
    assert caught.value.fault.endswith(fault)


def test_required_and_excluded() -> None:
    chunk = parse_node_spec("1:a:^b:ppn=2:c").chunks[0]
    assert chunk.required == ("a", "c")
    assert chunk.excluded == ("b",)


PROPERTY = st.from_regex(r"\^?[A-Za-z_][A-Za-z0-9_.=-]{0,8}", fullmatch=True).filter(
    lambda name: not name.startswith("ppn=")
)
CHUNK = st.builds(
    Chunk,
    nodes=st.integers(1, 10**9 - 1),
    cores=st.one_of(
        st.integers(1, 10**9 - 1).map(float),
        st.integers(1, 10**12)
        .map(lambda thousandths: thousandths / 1000)
        .filter(lambda c: c < 1e9),
    ),
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
