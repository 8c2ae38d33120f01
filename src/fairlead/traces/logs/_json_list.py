"""The items of a JSON list, read one by one, so that a list of any length needs little memory."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from fairlead.errors import InputError
from fairlead.formats.documents import json_fault
from fairlead.traces._stored_files import (
    LONGEST_ROW,
    ProgressReport,
    faults_of_reading,
    open_stored,
    show,
)

BYTES_PER_READ = 2**18
LONGEST_ITEM = LONGEST_ROW
LONGEST_TOKEN = 16  # the end of a block may cut a word, an escape or an exponent
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_DECODER: Final = json.JSONDecoder()
_TRUNCATED: Final = "ends before its list does (truncated?)"


class ListItem(NamedTuple):
    row: int  # of the file, from 1: the item begins there
    value: object


def read_items(
    path: Path, progress: ProgressReport | None = None
) -> Generator[ListItem, None, None]:
    """Yield the items of a file, plain or compressed, that holds one JSON list.

    `progress` is called after each block of text, and at the end. Raises InputError, which names
    file and row, for a file that cannot be read or is damaged, and for other text. Memory O(item).
    """
    source = str(path)
    reader: _ItemReader | None = None
    with (
        faults_of_reading(source, lambda: 1 if reader is None else reader.row),
        open_stored(path) as (stream, stored, size),
    ):
        reader = _ItemReader(stream)
        if reader.next_sign() != "[":
            raise InputError("is no JSON list")
        reader.skip_sign()
        blocks = 0
        at_end = reader.next_sign() == "]"
        while not at_end:
            reader.next_sign()
            yield ListItem(reader.row, reader.read_item())
            if progress is not None and reader.blocks > blocks:
                blocks = reader.blocks
                progress(stored.tell(), size)
            sign = reader.next_sign()
            if sign not in (",", "]"):
                raise InputError(
                    "an item of the list must be followed by a comma or ]" if sign else _TRUNCATED
                )
            at_end = sign == "]"
            reader.skip_sign()
        if reader.next_sign():
            raise InputError("holds more than one JSON list")
        if progress is not None:
            progress(size, size)


class _ItemReader:
    """The text of a stream, of which only a few blocks are in memory."""

    def __init__(self, stream: BinaryIO) -> None:
        self.row = 1  # of the next sign
        self.blocks = 0  # read so far
        self._stream = stream
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._text, self._at = "", 0

    def next_sign(self) -> str:
        """Move to the next sign that is no blank, and return it; empty at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            assert blanks is not None
            self._move(blanks.end())
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._read_block():
                return ""

    def skip_sign(self) -> None:
        self._move(self._at + 1)

    def read_item(self) -> object:
        """Move behind the value that begins here, and return it."""
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if len(self._text) - self._at > LONGEST_ITEM:
                    raise InputError(f"an item is longer than {LONGEST_ITEM} characters") from None
                cut = error.msg.startswith("Unterminated") or error.pos >= len(self._text.rstrip())
                near_end = cut or len(self._text) - error.pos <= LONGEST_TOKEN
                row = self.row + self._text.count("\n", self._at, error.pos)
                fault = _TRUNCATED if cut else self._named(error)
                if not near_end or not self._read_block():
                    self.row = row
                    raise InputError(fault) from None
            except (ValueError, RecursionError) as error:
                raise json_fault(error) from None
            else:
                # A number at the end of a block may go on in the next one.
                length, is_near_end = end - self._at, end + LONGEST_TOKEN > len(self._text)
                if not (is_near_end and self._read_block()):
                    self._move(self._at + length)
                    item: object = value
                    return item

    def _read_block(self) -> bool:
        block = self._stream.read(BYTES_PER_READ)
        try:
            more = self._decode(block, not block)
        except UnicodeDecodeError as error:
            self.row += self._text.count("\n", self._at) + block.count(b"\n", 0, error.start)
            raise InputError("not text in UTF-8") from None
        self._text, self._at = self._text[self._at :] + more, 0
        self.blocks += 1
        return bool(block)

    def _move(self, to: int) -> None:
        self.row += self._text.count("\n", self._at, to)
        self._at = to

    def _named(self, error: json.JSONDecodeError) -> str:
        here = show(self._text[error.pos : error.pos + 40])
        return f"is not JSON: {error.msg[:1].lower()}{error.msg[1:]}, at {here}"
