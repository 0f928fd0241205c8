"""A whole log may stand in one line. A line that is too long for memory is read in part, and that is reported."""

import json
from pathlib import Path

import pytest

from busbw import readers
from busbw.logs.log import Log
from busbw.readers.lines import source
from busbw.readers.text import text_logs

SWEEP = Path(__file__).resolve().parents[3] / "golden" / "logs" / "h200_x4_sweep_c1.txt"
LINES = SWEEP.read_text().splitlines()
DOCUMENTS = {
    "string": json.dumps({"host": "a", "stdout": "\n".join(LINES)}),
    "Ansible": json.dumps({"rc": 0, "stdout": "\n".join(LINES), "stdout_lines": LINES, "stderr": 'a "warning"\n'}),
    "Ansible, other order": json.dumps({"stderr_lines": [], "stdout": "\n".join(LINES), "zone": "x" * 9000}),
    "tool output": 'stdout="' + "\\n".join(LINES) + '" rc=0\n',
    "array": json.dumps({"lines": LINES}),
    "two hosts": json.dumps([{"host": host, "stdout": "\n".join(LINES)} for host in "ab"]),
    "JSON in JSON": json.dumps({"log": json.dumps({"rc": 0, "stdout": "\n".join(LINES)}), "rc": 0}),
    "JSON in JSON in JSON": json.dumps({"a": json.dumps({"log": json.dumps({"stdout": "\n".join(LINES)})})}),
    "JSON in JSON, two strings": json.dumps([json.dumps({"host": host, "stdout": "\n".join(LINES)}) for host in "ab"]),
    "Python": repr("\n".join(LINES)),
    "Python list": repr(LINES),
    "tabs": "\t".join(LINES),
    "HTML": "<br>".join(LINES),
    "encoded file": json.dumps({"file": "\\" * 5000, "stdout": "\n".join(LINES)}),
}


def read(folder: Path, text: str) -> Log:
    (folder / "log").write_text(text)
    return readers.read(folder / "log")


def figures(log: Log) -> list[object]:
    return [(row.size_bytes, row.dtype, row.figures) for row in log.rows]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_log_within_one_line(name: str, tmp_path: Path) -> None:
    expected = figures(readers.read(SWEEP)) * (2 if "two" in name else 1)
    log = read(tmp_path, f"a line\n{DOCUMENTS[name]}\nlast line\n")
    assert figures(log) == expected
    assert not log.refused
    assert len(log.tables) == len(expected) / 31
    assert {row.line for row in log.rows} == {2}


def test_the_rest_of_a_line_above_the_limit_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    length = len(DOCUMENTS["string"])
    for module in (source, text_logs):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", length)
    whole = SWEEP.read_text()
    log = read(tmp_path, f"{DOCUMENTS['string']}{whole!r}\n{whole}")
    assert figures(log) == figures(readers.read(SWEEP)) * 2
    assert [(refusal.line, "the line has more than" in refusal.reason) for refusal in log.refused] == [(1, True)]


def test_lines_that_ansible_repeats_are_not_refused(tmp_path: Path) -> None:
    log = read(tmp_path, json.dumps({"stdout": "\n".join(LINES), "stdout_lines": LINES}, indent=1))
    assert (figures(log), log.refused) == (figures(readers.read(SWEEP)), ())


def test_a_string_of_more_than_a_mebibyte(tmp_path: Path) -> None:
    count = (3 << 19) // SWEEP.stat().st_size
    log = read(tmp_path, json.dumps({"stdout": "\n".join(LINES * count)}))
    assert figures(log) == figures(readers.read(SWEEP)) * count
    assert (len(log.tables), log.refused) == (count, ())


def test_the_last_row_of_a_string_that_ends_early_is_refused(tmp_path: Path) -> None:
    text = DOCUMENTS["string"]
    row = next(index for index, line in reversed([*enumerate(LINES)]) if line.strip()[:1].isdigit())
    end = text.index(json.dumps(LINES[row])[1:-1]) + len(LINES[row]) - 20
    log = read(tmp_path, text[:end])
    assert figures(log) == figures(readers.read(SWEEP))[:-1]
    assert len(log.refused) == 1
