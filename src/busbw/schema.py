"""Writes a JSON schema of schema/ to standard output: `python -m busbw.schema records > schema/records.schema.json`."""

import json
import sys
from typing import Any

import msgspec

from busbw.records import SCHEMA_VERSION, Record
from busbw.reference import Reference
from busbw.search_records import SearchLine
from busbw.system import System
from busbw.topology import Topology

TYPES: dict[str, Any] = {
    "records": Record | SearchLine,
    "reference": Reference,
    "system": System,
    "topology": Topology,
}
"""Described types by the name of the schema."""


def make_schema(name: str) -> dict[str, Any]:
    """Returns one of the schemas. That of the records describes one line of a file."""
    title = {"title": f"busbw records, schema version {SCHEMA_VERSION}: one line"} if name == "records" else {}
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**draft, **title, **msgspec.json.schema(TYPES[name])}


def schema_text(name: str) -> str:
    """Returns the content of schema/NAME.schema.json."""
    return json.dumps(make_schema(name), indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text(sys.argv[1]))
