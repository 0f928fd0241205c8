"""Records that the engine writes with `--records`, one JSON object per line: a header, the rows, warnings and the end.

The types in header.py, row.py and end.py are the contract. `python -m busbw.schema records` generates
`schema/records.schema.json` from them. An engine test compares a run that has every field with a golden file, and
`tests/python/test_records.py` checks that file against the schema. Field names contain the unit; GB/s is 1e9 bytes per
second. `None` means missing and is never the same as zero.
"""

from busbw.records.end import COMPLETE_END_REASONS, EndRecord, MemoryRecord, WarningRecord
from busbw.records.header import SCHEMA_VERSION, HeaderRecord, LibraryRecord, RankRecord, SettingsRecord
from busbw.records.reading import Record, RecordsError, RunRecords, read, stream, stream_lines
from busbw.records.row import (
    CheckRecord,
    ClockRecord,
    LateRankKind,
    LateRankRecord,
    LifecycleRecord,
    RowRecord,
    SampleClock,
    SkewRecord,
    StatsRecord,
    TogetherRecord,
    WrongElement,
)

__all__ = [
    "COMPLETE_END_REASONS",
    "SCHEMA_VERSION",
    "CheckRecord",
    "ClockRecord",
    "EndRecord",
    "HeaderRecord",
    "LateRankKind",
    "LateRankRecord",
    "LibraryRecord",
    "LifecycleRecord",
    "MemoryRecord",
    "RankRecord",
    "Record",
    "RecordsError",
    "RowRecord",
    "RunRecords",
    "SampleClock",
    "SettingsRecord",
    "SkewRecord",
    "StatsRecord",
    "TogetherRecord",
    "WarningRecord",
    "WrongElement",
    "read",
    "stream",
    "stream_lines",
]
