"""Writes a JSON schema to standard output: `python -m busbw.schema NAME > schema/NAME.schema.json`."""

import json
import sys
from typing import Any

import msgspec

from busbw.records import SCHEMA_VERSION, Record
from busbw.reference import Reference
from busbw.searches.records import SearchLine
from busbw.system import System
from busbw.topology import Topology

_TYPES: dict[str, Any] = {
    "records": Record | SearchLine,
    "reference": Reference,
    "system": System,
    "topology": Topology,
}
"""Type by the name of its schema. `records` is one line of a file, `topology` the output of `busbw topo --json`."""
_TITLES = {"records": f"busbw records, schema version {SCHEMA_VERSION}: one line"}


def schema_text(name: str) -> str:
    """Returns the text of schema/NAME.schema.json."""
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    title = {"title": _TITLES[name]} if name in _TITLES else {}
    return json.dumps({**draft, **title, **msgspec.json.schema(_TYPES[name])}, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text(sys.argv[1]))
