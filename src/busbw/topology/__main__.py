"""Writes the JSON schema of a topology to standard output: `python -m busbw.topology`. schema/ contains a copy."""

import json
import sys

import msgspec

from busbw.topology import Topology


def schema_text() -> str:
    """Returns the text of schema/topology.schema.json."""
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**draft, **msgspec.json.schema(Topology)}, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
