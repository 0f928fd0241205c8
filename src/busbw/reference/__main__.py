"""Writes the JSON schema of a reference to standard output: `python -m busbw.reference`. schema/ contains a copy."""

import json
import sys

import msgspec

from busbw.reference import Reference


def schema_text() -> str:
    """Returns the text of schema/reference.schema.json."""
    draft_key = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**draft_key, **msgspec.json.schema(Reference)}, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
