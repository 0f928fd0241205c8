"""Events that a reader yields one by one, so that a log of any length is read in bounded memory."""

from typing import NamedTuple

from busbw.logs.log import Refusal, Table

CHUNK_ROWS = 20_000
"""Number of rows after which a table is split into chunks."""


class TableChunk(NamedTuple):
    """A table, or a part of a long one."""

    table: Table
    is_last: bool = True
    """False if more rows of the same table follow. All chunks of a table have the same first line."""


class LogNote(NamedTuple):
    """A sentence about the whole log."""

    sentence: str


Event = TableChunk | Refusal | LogNote


class UserClaims(NamedTuple):
    """Facts about a log that the user states."""

    collective: str | None = None
    """None if the user states none."""
