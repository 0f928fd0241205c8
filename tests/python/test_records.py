"""Tests of the records: their schema, the engine's golden records, and the reader."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from busbw import records, schema

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "records.jsonl"  # written by tests/engine/output/test_record_writer.cpp
SCHEMA = ROOT / "schema" / "records.schema.json"
PAGE = ROOT / "docs" / "reference" / "records.md"
RECORD_SCHEMA = json.loads(schema.schema_text("records"))
TYPES = RECORD_SCHEMA["$defs"]


def engine_lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def write_lines(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def keys_of(value: Any) -> Any:
    """Returns the keys of a JSON value at all levels, and None for other values."""
    if isinstance(value, dict):
        return {key: keys_of(content) for key, content in value.items()}
    if isinstance(value, list):
        return [keys_of(content) for content in value]
    return None


def test_the_schema_file_is_written_from_the_types() -> None:
    assert SCHEMA.read_text() == schema.schema_text("records"), "run: python -m busbw.schema records"


def test_the_schema_command_prints_the_schema() -> None:
    done = subprocess.run([sys.executable, "-m", "busbw.schema", "records"], capture_output=True, text=True, check=True)
    assert done.stdout == schema.schema_text("records")


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(RECORD_SCHEMA)


def test_engine_and_python_have_the_same_schema_version() -> None:
    header = (ROOT / "engine" / "output" / "record_writer.hpp").read_text()
    found = re.search(r'kSchemaVersion = "([^"]+)"', header)
    assert found is not None
    assert found.group(1) == records.SCHEMA_VERSION
    assert engine_lines()[0]["schema_version"] == records.SCHEMA_VERSION


@pytest.mark.parametrize("line", engine_lines(), ids=lambda line: line["kind"])
def test_every_line_of_the_engine_fits_the_schema(line: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator(RECORD_SCHEMA).validate(line)


@pytest.mark.parametrize("line", engine_lines(), ids=lambda line: line["kind"])
def test_the_types_hold_every_field_of_the_engine_and_no_other(line: dict[str, Any]) -> None:
    record = records.reading._decoder.decode(json.dumps(line))
    assert keys_of(json.loads(msgspec.json.encode(record))) == keys_of(line)


def test_the_engine_writes_every_kind_of_line() -> None:
    assert {line["kind"] for line in engine_lines()} == {"run", "row", "warning", "end"}


@pytest.mark.parametrize("change", ["drop", "retype"])
def test_the_schema_refuses_a_line_with_a_missing_or_mistyped_field(change: str) -> None:
    row = next(line for line in engine_lines() if line["kind"] == "row")
    if change == "drop":
        del row["check"]
    else:
        row["size_bytes"] = "8"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(RECORD_SCHEMA).validate(row)


@pytest.mark.parametrize("name", TYPES)
def test_every_field_has_a_description(name: str) -> None:
    fields = TYPES[name]["properties"]
    assert [field for field in fields if field != "kind" and not {"description", "$ref"} & fields[field].keys()] == []


def test_the_page_names_every_kind_of_line() -> None:
    kinds = RECORD_SCHEMA["discriminator"]["mapping"]
    assert [kind for kind in kinds if f"`{kind}`" not in PAGE.read_text()] == []


def test_page_and_schema_list_reasons_that_the_engine_writes() -> None:
    reporter = (ROOT / "engine" / "run" / "reporter.cpp").read_text()
    written = set(re.findall(r'case ExitCode::\w+: return "(.+)";', reporter))
    listed_on_page = re.search(r"`reason` \((.+), \.\.\.\)", PAGE.read_text())
    assert listed_on_page
    assert set(re.findall("`(.+?)`", listed_on_page[1])) <= written
    assert set(re.findall("'(.+?)'", TYPES["EndRecord"]["properties"]["reason"]["description"])) <= written


def test_reading_a_whole_file() -> None:
    run = records.read(GOLDEN)
    assert run.header.program == "all_reduce_perf"
    assert run.header.settings.step_factor == 2
    assert len(run.header.ranks) == 4
    assert [row.placement for row in run.rows] == ["out_of_place", "in_place", "out_of_place", "out_of_place"]
    assert run.rows[0].rank_times_us == [12, 20]
    assert run.rows[0].device_time_us == 8
    assert run.rows[0].launch_time_us == 2
    assert run.rows[0].rank_arrivals_us == [0, 48]
    assert run.rows[0].rank_clocks[0].slowed_by == ["power limit"]
    assert run.rows[0].samples_us == [[8, 16, 24], [12, 16, 20]]
    assert [row.check.wrong_elements for row in run.rows] == [0, 5, None, None]
    assert len(run.warnings) == 1
    assert run.end is not None
    assert run.end.exit_code == 1


def test_a_cut_off_last_line_is_omitted(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl"
    lines = GOLDEN.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:3]) + lines[3][:100])
    run = records.read(path)
    assert len(run.rows) == 1
    assert run.end is None


def test_a_newer_minor_version_may_add_fields(tmp_path: Path) -> None:
    lines = engine_lines()
    lines[0]["schema_version"] = records.SCHEMA_VERSION.split(".")[0] + ".99"
    for line in lines:
        line["invented_later"] = 1
    assert len(records.read(write_lines(tmp_path / "newer.jsonl", lines)).rows) == 4


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "contains no records"),
        ('{"kind":"warning","message":"x"}\n', ":1: the run's header line must come first"),
        ("{", ":1: "),
        ("no json\n", ":1: "),
        ('{"kind":"run","schema_version":"2.0"}\n', "has record schema 2.0"),
    ],
)
def test_a_file_that_is_no_record_is_refused_with_a_reason(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text)
    with pytest.raises(records.RecordsError, match=re.escape(sentence)):
        records.read(path)


def test_a_broken_line_in_the_middle_is_refused(tmp_path: Path) -> None:
    lines = engine_lines()
    del lines[2]["time_us"]
    with pytest.raises(records.RecordsError, match=r":3: .*time_us"):
        records.read(write_lines(tmp_path / "broken.jsonl", lines))


def test_a_byte_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "bytes.jsonl", engine_lines())
    first, second, *others = path.read_bytes().splitlines(keepends=True)
    assert b"4 ranks" in second
    path.write_bytes(b"".join([first, second.replace(b"4 ranks", b"4 r\xffnks"), *others]))
    with pytest.raises(records.RecordsError, match=r"bytes.jsonl:2: "):
        records.read(path)


def test_two_runs_in_one_file_are_refused(tmp_path: Path) -> None:
    lines = engine_lines()
    with pytest.raises(records.RecordsError, match=r":8: the run's header line must come first and only once"):
        records.read(write_lines(tmp_path / "two.jsonl", lines + lines))


def test_iterating_gives_the_lines_in_their_order() -> None:
    kinds = [record.__struct_config__.tag for record in records.read(GOLDEN)]
    assert kinds == [line["kind"] for line in engine_lines()]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(records.RecordsError, match="cannot read"):
        records.read(tmp_path / "none.jsonl")
