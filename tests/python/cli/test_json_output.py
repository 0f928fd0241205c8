"""Each JSON object of a command begins with the schema version."""

import json
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.json_output import SCHEMA_VERSION

LOG = str(Path(__file__).parents[3] / "tests" / "golden" / "records.jsonl")


@pytest.mark.parametrize(
    "words",
    [
        ["check", "--json", LOG],
        ["compare", "--json", LOG, LOG],
        ["expect", "all_reduce", "--system", "b200", "--json"],
        ["import", "--json", LOG],
    ],
)
def test_object_begins_with_its_schema_version(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(words)
    fields = json.loads(capsys.readouterr().out)
    assert next(iter(fields.items())) == ("schema_version", SCHEMA_VERSION)
