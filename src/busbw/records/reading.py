"""Reads files of records, at once or in bounded memory."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from busbw.errors import BusbwError
from busbw.records.end import EndRecord, WarningRecord
from busbw.records.header import SCHEMA_VERSION, HeaderRecord
from busbw.records.row import RowRecord


class RecordsError(BusbwError):
    """A record file cannot be read. The message names the file, the line and a remedy."""


Record = HeaderRecord | RowRecord | WarningRecord | EndRecord
"""One line of a record file; its `kind` selects the type."""


@dataclasses.dataclass(frozen=True)
class RunRecords:
    """Content of a record file. Iteration yields its lines in order."""

    records: list[Record]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    @property
    def header(self) -> HeaderRecord:
        """The first line. `read` guarantees that it exists."""
        return next(record for record in self.records if isinstance(record, HeaderRecord))

    @property
    def rows(self) -> list[RowRecord]:
        """All row records."""
        return [record for record in self.records if isinstance(record, RowRecord)]

    @property
    def warnings(self) -> list[str]:
        """Warnings about the run. Warnings about a single measurement are in its row."""
        return [record.message for record in self.records if isinstance(record, WarningRecord)]

    @property
    def end(self) -> EndRecord | None:
        """End of the run. None if the run was killed."""
        return next((record for record in self.records if isinstance(record, EndRecord)), None)


_Line = TypeVar("_Line")
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def stream(path: Path | str) -> Iterator[Record | None]:
    """Yields the records of a file line by line, in bounded memory. Yields None for a last line that was cut off.

    Raises:
        RecordsError: The file cannot be read, a line before the last is malformed, the first line is not a header, or
            the schema has another major version.
    """
    return stream_lines(path, _decoder, HeaderRecord)


def stream_lines(path: Path | str, decoder: msgspec.json.Decoder[_Line], header: type) -> Iterator[_Line | None]:
    """Yields the lines of a file as `stream` does, but also for other records, such as those of a search.

    Args:
        path: The file.
        decoder: Decoder of a line.
        header: Type of the first line, and of no other line.
    """
    line_number = 0
    try:
        with Path(path).open("rb") as lines:
            for line_number, line in enumerate(lines, start=1):
                is_first = line_number == 1
                if is_first:
                    _require_known_version(path, line)
                try:
                    record = decoder.decode(line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    is_cut_off = not line.endswith(b"\n")
                    if is_cut_off and not is_first:
                        yield None
                        return
                    raise RecordsError(
                        f"{path}:{line_number}: {error}", remedy="give a file written by --records"
                    ) from error
                is_header = isinstance(record, header)
                if is_header != is_first:  # the header is missing or repeated
                    expected = "the run's header line must come first and only once"
                    raise RecordsError(f"{path}:{line_number}: {expected}", remedy="use a separate file for each run")
                yield record
    except OSError as error:
        raise RecordsError(f"cannot read {path}: {error.strerror}", remedy="give a readable record file") from error
    if not line_number:
        raise RecordsError(f"{path} contains no records", remedy="check the output of its run, then repeat the run")


def read(path: Path | str) -> RunRecords:
    """Reads a whole record file, without a last line that was cut off.

    Raises:
        RecordsError: As `stream`.
    """
    return RunRecords([record for record in stream(path) if record is not None])


class _Version(Struct):
    schema_version: str


def _require_known_version(path: Path | str, first_line: bytes) -> None:
    """Rejects another major version of the schema, because its fields may have other meanings."""
    try:
        version = msgspec.json.decode(first_line, type=_Version).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return  # the caller decodes the whole line next, which raises a more precise error
    if version.partition(".")[0] != SCHEMA_VERSION.partition(".")[0]:
        raise RecordsError(
            f"{path} has record schema {version}, this program reads {SCHEMA_VERSION}",
            remedy="read it with the busbw version that wrote it, or measure again",
        )
