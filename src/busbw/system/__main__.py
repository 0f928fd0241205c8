"""Prints the JSON schema of a system file: `python -m busbw.system >schema/system.schema.json`."""

import json
import sys

import msgspec

from busbw.system import System


def schema_text() -> str:
    """Returns the text of schema/system.schema.json."""
    draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**draft, **msgspec.json.schema(System)}, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
