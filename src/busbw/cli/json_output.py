"""JSON objects that the commands print with `--json`."""

import msgspec

SCHEMA_VERSION = "1.0"
"""Version of the objects' fields. schema/README.md has the rules for its steps."""


def json_object(value: object) -> bytes:
    """Returns a struct or a dict as one JSON object, with the schema version first."""
    return msgspec.json.encode({"schema_version": SCHEMA_VERSION, **msgspec.to_builtins(value)})
