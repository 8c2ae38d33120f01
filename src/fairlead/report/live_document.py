"""Tables of a running service as documents, which a terminal shows in parts."""

from __future__ import annotations

from fairlead.report.document import Cell, Column, Content, Document, table_of
from fairlead.report.live import LiveTable, Short


def document_of(table: LiveTable) -> Document:
    """Return a table as a document."""
    rows: list[list[Content]] = [
        [Cell(text, kind="bad") if isinstance(text, Short) else text for text in row]
        for row in table.rows
    ]
    shown = table_of(
        table.title,
        [Column(column.text, words=column.is_words) for column in table.columns],
        rows,
        each=table.each,
        rest="later ones",
        note=table.note,
        keys=table.keys,
    )
    return Document(table.title, table.title, table.lead, None, [shown], lambda: table.values)
