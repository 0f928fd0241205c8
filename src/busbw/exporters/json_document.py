"""One JSON document with the full content: logs with tables, rows, figures, refused lines and warnings."""

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from msgspec.structs import replace

from busbw.judge import JudgedConfiguration
from busbw.logs.log import Log, Table
from busbw.support.json_output import SCHEMA_VERSION, encode_item, object_with_lists

SUFFIX = ".json"
HAS_VERDICTS = False


def write(logs: Sequence[Log], out: BinaryIO, verdicts: Sequence[JudgedConfiguration] = ()) -> None:
    """Writes an object with the list `logs`, each in the structure of src/busbw/logs/log.py. Null means unknown."""
    out.writelines(object_with_lists({"schema_version": SCHEMA_VERSION}, {"logs": map(_encode_log, logs)}, b"\n"))
    out.write(b"\n")


def _encode_log(log: Log) -> Iterator[bytes]:
    """Yields the parts of a log. Its long lists are encoded item by item, because they may be too long for memory."""
    fields = replace(log, tables=(), refused=())
    return object_with_lists(
        fields, {"tables": map(_encode_table, log.tables), "refused": map(encode_item, log.refused)}, b"\n"
    )


def _encode_table(table: Table) -> Iterator[bytes]:
    return object_with_lists(replace(table, rows=()), {"rows": map(encode_item, table.rows)}, b"\n")
