"""Writes the JSON schema of a topology to standard output: `python -m busbw.topology`; schema/ holds it."""

import json
import sys

import msgspec

from busbw.topology import Topology


def schema_text() -> str:
    """The schema as the file in schema/ holds it."""
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**draft, **msgspec.json.schema(Topology)}, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
