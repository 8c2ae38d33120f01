"""Compressed files: detected by first bytes, and read or refused by name."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hand_written_logs import log_row, write_log
from random_workloads import assert_equal

import small_logs
from fairlead.errors import InputError
from fairlead.model.workload import Workload
from fairlead.traces import _json_files, _stored_files
from fairlead.traces._stored_files import open_stored, uncompressed_name
from fairlead.traces.readers import read_workload
from faults import fault_within

LOG = b"; MaxProcs: 8\n1 100 5 60 4 -1 -1 4 3600 -1 1 7 1 1 -1 -1 -1 -1\n"


def tarred(content: bytes) -> bytes:
    stored = io.BytesIO()
    with tarfile.open(fileobj=stored, mode="w") as archive:
        member = tarfile.TarInfo("log.swf")
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return stored.getvalue()


FORMS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": (".gz", gzip.compress),
    "bzip2": (".bz2", bz2.compress),
    "xz": (".xz", lzma.compress),
}


def refusal(path: Path, content: bytes) -> InputError:
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_workload(path)
    assert caught.value.source == str(path)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.fixture(scope="module")
def tables() -> Workload:
    return read_workload(small_logs.OPENB)[0]


@pytest.mark.parametrize("form", FORMS)
def test_tables_and_logs_in_any_compressed_form(
    tmp_path: Path, form: str, tables: Workload
) -> None:
    suffix, compress = FORMS[form]
    for file in small_logs.OPENB.iterdir():
        name = uncompressed_name(file).name
        with open_stored(file) as (stream, _, _):
            (tmp_path / f"{name}{suffix}").write_bytes(compress(stream.read()))
    found = read_workload(tmp_path)[0]
    assert_equal(replace(found, origin=tables.origin), tables)
    log = write_log(tmp_path, log_row(1))  # its machine file is beside it, and plain
    packed = log.with_name(log.name + suffix)
    packed.write_bytes(compress(log.read_bytes()))
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
        assert fault.fault.startswith(f"the {form} file ")
        assert fault.place.startswith("row ")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"\x28\xb5\x2f\xfd" + bytes(40), "zstd"),
        (tarred(LOG), "tar archive"),
        (gzip.compress(tarred(LOG)), "tar archive"),
        (b"PK\x03\x04" + bytes(40), "zip archive"),
        (LOG.decode().encode("utf-16"), "UTF-16"),
    ],
    ids=["zstd", "tar", "tar in gzip", "zip", "utf-16"],
)
def test_other_archives_are_named(tmp_path: Path, content: bytes, fault: str) -> None:
    assert fault in refusal(tmp_path / "log.gz", content).fault


def test_limits_are_of_the_decompressed_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_json_files, "LARGEST_JSON", 2**20)
    content = b'{"jobs": [], "profiles": {}, "nb_res": 1}' + b" " * 2**20
    assert "is larger than 1 MiB" in refusal(tmp_path / "x", gzip.compress(content)).fault
    monkeypatch.setattr(_stored_files, "LONGEST_ROW", 2**10)
    assert "longer than" in refusal(tmp_path / "log", gzip.compress(bytes(2**10 + 1))).fault


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
    assert fault_within(path, _json_files.read_json, path) == fault
