"""Writes the JSON schema of the records to standard output: `python -m busbw.schema > schema/records.schema.json`."""

import json
import sys
from typing import Any

import msgspec

from busbw.records import SCHEMA_VERSION, Record
from busbw.search_records import SearchLine


def record_schema() -> dict[str, Any]:
    """JSON schema of one line of a record file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"busbw records, schema version {SCHEMA_VERSION}: one line",
        **msgspec.json.schema(Record | SearchLine),
    }


def schema_text() -> str:
    """Content of schema/records.schema.json."""
    return json.dumps(record_schema(), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
