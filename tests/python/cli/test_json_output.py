"""Each command that prints data has `--json`, and each of its objects begins with the schema version."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from conftest import GOLDEN_RECORD
from kept_runs import add_run
from saved_matrices import H200_X4
from synthetic_traces import make_trace

from busbw.cli.main import cli, main
from busbw.support.json_output import SCHEMA_VERSION, json_object
from busbw.traces.write import write_trace

LOG = str(GOLDEN_RECORD)
GOLDEN = GOLDEN_RECORD.parent

EXAMPLES: dict[str, list[list[str]]] = {
    "check": [[LOG], [LOG, str(GOLDEN / "seeds")]],
    "compare": [[LOG, LOG]],
    "doctor": [["--list"], ["--check", "nofile"]],
    "expect": [["all_reduce", "--system", "b200"], ["--list-systems"]],
    "fastpath show": [["--generation", "sm_90"]],
    "find": [["--simulate", "2x2", "--fault", "node:1:2"]],
    "history": [["all_reduce", "--store", "store"]],
    "import": [[LOG]],
    "launch machine-types": [[], ["p5"]],
    "refs": [[], ["h200-x4"]],
    "replay": [["--list"]],
    "runs": [["--store", "store"], ["--store", "store", "--rows"]],
    "show": [[LOG], [LOG, "--table", "1", "--redact"], ["trace"]],
    "topo": [["matrix.txt"]],
}
"""Arguments of each command that reads. Each call prints at least one object."""

TESTED_ELSEWHERE = {
    "ab": "test_ab.py",
    "fastpath path": "test_cli_fastpath.py",
    "fastpath tune": "test_cli_fastpath.py",
    "tune": "test_tune.py",
}
"""Commands that need programs or a library. Each file tests the object with fake ones."""

WITHOUT_JSON = {
    "run": "prints the engine's table; its data is the record, a file of JSON lines with a schema version",
    "launch": "prints the engine's table; its data is the record, as with run",
    "record": "prints the output of its command; its data is the trace",
    "export": "prints the format that its argument names, of which json has a schema version",
    "report": "writes an HTML page",
}
"""Commands that print no data of their own, with the reason. `launch` stands for its launchers and `attach`."""

VERSIONS = {"topo": "1.0"}
"""Schema versions of objects with a schema file."""


def leaf_commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yields the full name of each command below a group, without `busbw`.

    A group that is a command itself, such as `find`, stands for its commands.
    """
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        full_name = f"{path}{name}"
        if isinstance(command, click.Group) and not command.invoke_without_command:
            yield from leaf_commands(command, f"{full_name} ")
        else:
            yield full_name, command


def test_every_command_that_prints_data_has_json() -> None:
    commands = dict(leaf_commands(cli))
    has_json = {name for name, command in commands.items() if any("--json" in p.opts for p in command.params)}
    assert has_json == {*EXAMPLES, *TESTED_ELSEWHERE}
    others = {name if name in WITHOUT_JSON else name.split()[0] for name in commands.keys() - has_json}
    assert others == set(WITHOUT_JSON)


def test_the_page_describes_each_object() -> None:
    page = (GOLDEN.parents[1] / "docs" / "reference" / "json.md").read_text()
    cells = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    described = re.findall(r"`([a-z -]+)`", " ".join(cells))
    assert set(described) == {*EXAMPLES, *TESTED_ELSEWHERE}


@pytest.mark.parametrize("file", sorted(set(TESTED_ELSEWHERE.values())))
def test_the_other_files_test_the_object(file: str) -> None:
    (path,) = Path(__file__).parents[1].rglob(file)
    assert "SCHEMA_VERSION" in path.read_text()


def objects_of(words: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """Runs a command and returns the objects that it prints: one of several lines, or one per line."""
    capsys.readouterr()
    main(words)
    text = capsys.readouterr().out
    return (
        [json.loads(text)] if words[0] == "import" and "--rows" not in words else [*map(json.loads, text.splitlines())]
    )


@pytest.mark.parametrize(
    ("command", "arguments"), [(command, arguments) for command, calls in EXAMPLES.items() for arguments in calls]
)
def test_each_object_begins_with_its_schema_version(
    command: str, arguments: list[str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "matrix.txt").write_text(H200_X4)
    if "trace" in arguments:
        write_trace(make_trace(ranks=2), here / "trace")
    if "store" in arguments:
        for day in range(2):
            add_run(here / "store", day)
    objects = objects_of([*command.split(), *arguments, "--json"], capsys)
    assert objects
    for fields in objects:
        assert next(iter(fields.items())) == ("schema_version", VERSIONS.get(command, SCHEMA_VERSION))
        assert len(fields) > 1


def fields_of(value: object, path: str = "") -> set[str]:
    """Returns the paths of all fields in a JSON value. Keys of `settings` and `environment` are data, not fields."""
    if isinstance(value, list):
        return {field for item in value for field in fields_of(item, f"{path}[]")}
    if not isinstance(value, dict) or path.endswith((".settings", ".environment")):
        return set()
    names = {name: f"{path}.{name}" for name in value}
    return {*names.values()}.union(*(fields_of(item, names[name]) for name, item in value.items()))


Fields = dict[str, list[str]]
"""Paths of all fields that each command prints."""


def required_version(version: str, stored: Fields, printed: Fields) -> str:
    """Returns the lowest version for the printed fields, if the stored ones had this version."""
    major, minor = map(int, version.split("."))
    before, now = ({(command, path) for command in fields for path in fields[command]} for fields in (stored, printed))
    if before - now:
        return f"{major + 1}.0"
    return f"{major}.{minor + 1}" if now - before else version


def test_a_removed_field_raises_the_major_version_and_a_new_one_the_minor_version() -> None:
    stored = {"show": [".a", ".b"]}
    assert required_version("1.9", stored, stored) == "1.9"
    assert required_version("1.9", stored, {"show": [".a", ".b", ".c"]}) == "1.10"
    assert required_version("1.9", stored, {"show": [".a", ".c"]}) == "2.0"
    assert required_version("1.9", stored, {}) == "2.0"


def test_other_fields_have_another_schema_version(capsys: pytest.CaptureFixture[str]) -> None:
    printed = {
        " ".join(words): sorted(
            set().union(*(fields_of(fields) for fields in objects_of([*words, *logs, "--json"], capsys)))
        )
        for words, logs in ((["check"], [LOG]), (["show"], [LOG]), (["import"], [LOG]), (["compare"], [LOG, LOG]))
    }
    golden = GOLDEN / "json_fields.json"
    stored = json.loads(golden.read_text())
    required = required_version(stored["schema_version"], stored["fields"], printed)
    parts, required_parts = (tuple(map(int, version.split("."))) for version in (SCHEMA_VERSION, required))
    assert parts >= required_parts, f"raise SCHEMA_VERSION of json_output.py to {required}"
    if "WRITE_GOLDEN" in os.environ:
        stored = {"schema_version": SCHEMA_VERSION, "fields": printed}
        golden.write_text(json.dumps(stored, indent=1) + "\n")
    assert stored == {"schema_version": SCHEMA_VERSION, "fields": printed}, "run this test with WRITE_GOLDEN=1"


def test_rows_of_import_have_the_schema_version(capsys: pytest.CaptureFixture[str]) -> None:
    objects = objects_of(["import", "--rows", LOG], capsys)
    assert objects
    for fields in objects:
        assert list(fields)[:3] == ["schema_version", "source", "table"]


def test_the_exported_document_has_the_schema_version(capsys: pytest.CaptureFixture[str]) -> None:
    main(["export", "json", LOG])
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["schema_version", "logs"]


def test_an_empty_object_is_valid() -> None:
    assert json.loads(json_object({})) == {"schema_version": SCHEMA_VERSION}


@pytest.mark.parametrize(
    "words", [["check", "--json"], ["show", "--json"], ["import", "--json"], ["export", "csv"], ["export", "json"]]
)
def test_text_that_utf_8_cannot_encode_is_replaced(
    words: list[str], here: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    sweep = (GOLDEN / "logs" / "h200_x4_sweep_c1.txt").read_text()
    broken_row = "16  4  fl\ud83d  sum  -1  10.0  0.1  0.1  0  10.0  0.1  0.1  0\n"
    (here / "log.json").write_text(json.dumps({"stdout": sweep.replace("NVIDIA", "\ud83d") + broken_row}))
    main([*words, "log.json"])
    out = capsysbinary.readouterr().out.decode()
    assert "8388608" in out
    assert "?" in out or words[0] == "check"


def test_a_file_name_that_is_not_utf_8_is_escaped(here: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    folder = here / "logs"
    folder.mkdir()
    for name in (b"a\xff.log", b"b\xff.log"):
        (folder / os.fsdecode(name)).write_bytes(GOLDEN_RECORD.read_bytes() if name[:1] == b"a" else b"nothing")
    main(["check", "--json", "logs"])
    fields = json.loads(capsysbinary.readouterr().out)
    assert {verdict["log"] for verdict in fields["verdicts"]} == {"logs/a\\xff.log"}
    assert any(r"logs/b\xff.log was skipped" in note for note in fields["notes"])


def test_show_has_the_log_with_the_expected_busbw(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(GOLDEN / "logs" / "h200_x4_sweep_c1.txt")
    (shown,) = objects_of(["show", path, "--json"], capsys)
    (imported,) = objects_of(["import", path, "--json"], capsys)
    shown_rows = [row for table in shown["tables"] for row in table["rows"]]  # type: ignore[attr-defined]
    imported_rows = [row for table in imported["tables"] for row in table["rows"]]  # type: ignore[attr-defined]
    assert [row["figures"] for row in shown_rows] == [row["figures"] for row in imported_rows]
    ranges = [row["expected_busbw_gbps"] for row in shown_rows if row["expected_busbw_gbps"]]
    assert ranges
    assert all(0 < limits["low"] <= limits["typical"] <= limits["high"] for limits in ranges)


def test_show_prints_only_the_selected_table(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(GOLDEN / "seeds" / "004_01261a79506a5607.txt")
    (shown,) = objects_of(["show", path, "--table", "2", "--json"], capsys)
    assert [table["table"] for table in shown["tables"]] == [2]  # type: ignore[attr-defined]


def test_check_identifies_each_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    (record,) = [json.loads(line) for line in GOLDEN_RECORD.read_text().splitlines() if '"kind":"run"' in line]
    (fields,) = objects_of(["check", LOG, "--system", "host", "--json"], capsys)
    for verdict in fields["verdicts"]:  # type: ignore[attr-defined]
        assert (verdict["log"], verdict["table"], verdict["system"]) == (LOG, 1, "host")
        hosts = {rank["host"] for rank in record["ranks"] if rank.get("group", 0) == verdict["group"]}
        assert verdict["hosts"] == sorted(hosts)
        assert verdict["collective"] == "all_reduce"
        assert verdict["grade"] in ("GOOD", "SLOW", "BROKEN", "UNSURE")
