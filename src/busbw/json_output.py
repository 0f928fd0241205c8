"""JSON objects that the commands print with `--json`."""

import msgspec

from busbw.units import escape_json

SCHEMA_VERSION = "1.0"
"""Version of the objects' fields. schema/README.md has the rules for its steps."""

_ENCODER = msgspec.json.Encoder()
_BEGINNING = _ENCODER.encode({"schema_version": SCHEMA_VERSION})[:-1]


def json_object(value: object) -> bytes:
    """Returns a struct, a dataclass or a dict as one JSON object, with the schema version first. Terminals can print it safely."""
    fields = _ENCODER.encode(value)[1:]
    # A list of two million measurements is written object by object, so the encoded text is joined, not its values.
    return escape_json(_BEGINNING + (b"," if fields != b"}" else b"") + fields)
