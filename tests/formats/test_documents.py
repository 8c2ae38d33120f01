"""Malformed YAML and JSON, and files that would cost too much memory or time."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

import faults
from fairlead.formats import documents
from fairlead.formats.documents import LARGEST_FILE, read_document
from fairlead.formats.problem_file import load


def fault_of(tmp_path: Path, content: str | bytes, name: str = "p.yaml") -> str:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return faults.fault_of(read_document, path)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is empty"),
        ("a: 1\n---\n", "holds 2 documents, where there must be one"),
        ("---\n---\n- 1\n", "holds 2 documents, where there must be one"),
        ("a: 1\n...\n# b\nb: 2\n", "holds 2 documents, where there must be one"),
        (b"a: \xff\xfe", "byte 4: is not a text file in UTF-8"),
        (gzip.compress(b"a: 1", mtime=0), "byte 2: is not a text file in UTF-8"),
        ("a: 1".encode("utf-16"), "byte 1: is not a text file in UTF-8"),
        (b"a: 1\nb: \x00", "line 2: is not a text file: it holds the control character 0x00"),
        ("a: [1,\n", "line 1, column 4: is not YAML: unclosed bracket '['"),
        ("? {a: {b: 1}}\n: 2", "has a mapping or a list as the key of a mapping"),
        ("a: 1\na: 2\n? {b: {c: 1}}\n: 3", "the key 'a' appears twice in one mapping"),
        ("a: *x", "line 1, column 4: is not YAML: while parsing node, found unknown anchor"),
        ("- " * 100_000 + "1", "line 1: is nested too deeply"),
        ("a:\n  " + "- " * 100_000 + "# b", "line 2: is nested too deeply"),
        ("".join(" " * k + "a:\n" for k in range(500)), "line 201: is nested too deeply"),
        ("[" * 100_000, "line 1, column 256: is nested too deeply"),
        ("a:\n  " + "9" * 5000 + ": 1", "line 2: has a whole number with thousands of digits"),
        ("a: -0x" + "f" * 4000, "line 1: has a whole number with thousands of digits"),
    ],
)  # fmt: skip
def test_malformed_yaml(tmp_path: Path, content: str | bytes, fault: str) -> None:
    assert fault_of(tmp_path, content) == fault


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('{"a": 1', "line 1, column 8: is not JSON: expecting ',' delimiter"),
        ("a: 1", "line 1, column 1: is not JSON: expecting value"),
        ('{"a": {"b": 1, "b": 2}}', "a.b: the key 'b' appears twice in one mapping"),
        ("[" * 100_000, "is nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "has a whole number with thousands of digits"),
    ],
)
def test_malformed_json(tmp_path: Path, content: str, fault: str) -> None:
    assert fault_of(tmp_path, content, "p.json") == fault


def test_unreadable_paths(tmp_path: Path) -> None:
    for path, fault in (
        (tmp_path, "is a directory, not a file"),
        (tmp_path / "none.yaml", "no such file"),
        ("a\0b", "is not the name of a file"),
        (Path(__file__) / "p.yaml", "cannot be read: not a directory"),
    ):
        assert faults.fault_of(read_document, path) == fault


def test_a_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.touch()
    os.truncate(path, 200 * 2**20)
    tracemalloc.start()
    message = faults.fault_of(load, path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * LARGEST_FILE
    assert message.startswith(f"{path}: is larger than 32 MiB; ")


def test_endless_input_is_refused_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        given = 0

        def read(self, size: int = -1) -> bytes:
            self.given += size
            return b"a" * size

    endless = Endless()
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": endless}))
    assert faults.fault_of(load, "-").startswith("standard input: is larger than 32 MiB")
    assert endless.given == LARGEST_FILE + 1


def test_too_many_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_ENTRIES", 10)
    assert fault_of(tmp_path, "- 1\n" * 11).startswith("has more than 10 entries; ")


def test_aliases_that_expand_without_end(tmp_path: Path) -> None:
    levels = "".join(
        f"a{k}: &a{k} [{','.join([f'*a{k - 1}'] * 9)}]\n" if k else "a0: &a0 [1,1,1]\n"
        for k in range(12)
    )
    long = f"a: &a {'x' * 10**6}\nb: [{','.join(['*a'] * 10_000)}]\n"
    for bomb in (levels, long):
        fault = fault_of(tmp_path, bomb)
        assert fault == "expands its aliases to too much for a file of its size"


def test_nonsense_costs_little(tmp_path: Path) -> None:
    """The worst shapes found, in a process of their own: 1 KB of memory an entry at most."""
    head = "fairlead: 1\nservers:\n"
    script = (
        "import sys\n"
        "from fairlead import InputError\n"
        "from fairlead.formats.problem_file import load\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n        load(path)\n"
        "    except InputError:\n"
        "        print('refused')\n"
        "status = open('/proc/self/status').read()\n"  # getrusage counts the parent's peak too
        "print(int(status.split('VmHWM:')[1].split()[0]) // 1024)\n"
    )
    paths = []
    for k, nonsense in enumerate(
        (
            head + "- {" + ",".join(f"k{k}: 1" for k in range(3 * 10**5)) + "}\nusers: []\n",
            head + "- junk\n" * 3 * 10**5 + "users: []\n",
            "x" * 2**23,
        )
    ):
        paths.append(tmp_path / f"{k}.yaml")
        paths[-1].write_text(nonsense)
    done = subprocess.run(
        [sys.executable, "-c", script, *paths],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    *refused, peak = done.stdout.split()
    assert refused == ["refused"] * 3
    assert int(peak) < 250, peak


def test_scalars_are_those_of_yaml_1_2(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text("[1e3, 512Gi, 0o17, 010, 1_000, .inf, NaN, true, ~, '16', !!str 3]\n")
    assert read_document(path) == [
        1000.0, "512Gi", 15, 10, 1000, float("inf"), "NaN", True, None, "16", "3",
    ]  # fmt: skip
    path.write_text("[yes, no, on, 2020-01-01, 12:30]\n")
    assert read_document(path) == ["yes", "no", "on", "2020-01-01", "12:30"]


@pytest.mark.parametrize(
    "content",
    [b'{"a":\t1}', b"{a: 1}", b'\xef\xbb\xbf{"a": 1}', b"---\na: 1\n...\n", b"a: 1\r\n",
     b"# a\n%YAML 1.2\n---\n# b\na: 1\n...\n# c\n", b"--- {a: 1}",
     b"# " + b"-" * 300 + b"\na: 1\n", b" " * 300 + b"\n" + b" " * 300 + b"# b\na: 1\n"],
)  # fmt: skip
def test_ways_to_write_the_same(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(content)
    assert read_document(path) == {"a": 1}


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{"fairlead": 1, "servers": [{"name": "a", "capacity": {"cpu": 4}}], "users": '
    stdin = type("Stdin", (), {"buffer": io.BytesIO(content + b'[{"name": 1}]}')})
    monkeypatch.setattr(sys, "stdin", stdin)
    fault = "standard input: users[0].demand: user '1' demands nothing"
    assert faults.fault_of(load, "-") == fault
