"""Compressed files: detected by first bytes, and read or refused by name."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hand_written_logs import EXAMPLES, log_row, write_log
from random_workloads import assert_equal

from fairlead.errors import InputError
from fairlead.traces import _stored_files
from fairlead.traces._stored_files import open_stored, read_json, uncompressed_name
from fairlead.traces.readers import read_workload
from faults import fault_within

LOG = b"; MaxProcs: 8\n1 100 5 60 4 -1 -1 4 3600 -1 1 7 1 1 -1 -1 -1 -1\n"
FORMS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "plain": ("", bytes),
    "gzip": (".gz", gzip.compress),
    "bzip2": (".bz2", bz2.compress),
    "xz": (".xz", lzma.compress),
}


def tarred(content: bytes) -> bytes:
    stored = io.BytesIO()
    with tarfile.open(fileobj=stored, mode="w") as archive:
        member = tarfile.TarInfo("log.swf")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return stored.getvalue()


def refusal(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return fault_within(path, read_workload, path)


@pytest.mark.parametrize("form", FORMS)
def test_tables_and_logs_in_any_stored_form(tmp_path: Path, form: str) -> None:
    """Any of them may have a byte order mark."""
    suffix, compress = FORMS[form]
    tables = read_workload(EXAMPLES / "openb")[0]
    for file in (EXAMPLES / "openb").iterdir():
        with open_stored(file) as (stream, _, _):
            stored = compress(codecs.BOM_UTF8 + stream.read())
        (tmp_path / f"{uncompressed_name(file).name}{suffix}").write_bytes(stored)
    found = read_workload(tmp_path)[0]
    assert_equal(replace(found, origin=tables.origin), tables)
    log = write_log(tmp_path, log_row(1))  # its machine file is beside it, and plain
    packed = log.with_name(log.name + suffix)
    packed.write_bytes(compress(codecs.BOM_UTF8 + log.read_bytes()))
    assert read_workload(packed)[0].n_jobs == 1


@pytest.mark.parametrize(("form", "damaged"), [("gzip", -8), ("bzip2", 4), ("xz", 7)])
def test_truncated_and_damaged_files_name_their_form(
    tmp_path: Path, form: str, damaged: int
) -> None:
    jobs = b"".join(LOG[14:].replace(b"1 100", b"%d %d" % (n, n)) for n in range(1000))
    content = bytearray(FORMS[form][1](LOG[:14] + jobs))
    short = refusal(tmp_path / "log", bytes(content[: len(content) // 2]))
    content[damaged] ^= 0xFF
    for fault in (short, refusal(tmp_path / "log", bytes(content))):
        assert fault.startswith("row ")
        assert f": the {form} file " in fault


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"\x28\xb5\x2f\xfd" + bytes(40), "zstd"),
        (tarred(LOG), "tar archive"),
        (gzip.compress(tarred(LOG)), "tar archive"),
        (b"PK\x03\x04" + bytes(40), "zip archive"),
        (LOG.decode().encode("utf-16"), "UTF-16"),
    ],
)
def test_other_archives_are_named(tmp_path: Path, content: bytes, fault: str) -> None:
    assert fault in refusal(tmp_path / "log.gz", content)


def test_limits_are_of_the_decompressed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_stored_files, "LARGEST_JSON", 2**20)
    content = b'{"jobs": [], "profiles": {}, "nb_res": 1}' + b" " * 2**20
    assert refusal(tmp_path / "x", gzip.compress(content)) == "is larger than 1 MiB"
    monkeypatch.setattr(_stored_files, "BYTES_PER_BLOCK", 2**10)
    monkeypatch.setattr(_stored_files, "LONGEST_ROW", 2**10)
    fault = refusal(tmp_path / "log", gzip.compress(b"; one row\n" + bytes(2**11)))
    assert fault == "row 2: longer than 1024 bytes"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'{"jobs": "\xff"}', "is not JSON in UTF-8"),
        (b'{"jobs": 1, "jobs": 2}', "jobs: the key 'jobs' appears twice in one mapping"),
    ],
)
def test_unusable_documents(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    assert fault_within(path, read_json, path) == fault


def test_line_ends_converted_twice_are_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "log.swf"
    path.write_bytes(LOG)
    expected, _ = read_workload(path)
    path.write_bytes(LOG.replace(b"\n", b"\r\r\n"))
    assert_equal(read_workload(path)[0], expected)
    path.write_bytes(LOG.replace(b"100", b"10\r0"))
    with pytest.raises(InputError, match="row 2: holds a carriage return"):
        read_workload(path)
