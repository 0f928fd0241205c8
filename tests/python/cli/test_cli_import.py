"""`busbw import`: its summary, its JSON output, and its exit codes."""

import io
import json
import sys
from pathlib import Path

import pytest

from busbw.cli.main import main

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
SEEDS = GOLDEN / "seeds"
NUMBERS = {"000": 160, "001": 160, "002": 84, "003": 68, "004": 87}


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_the_seeds_in_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--json", str(SEEDS)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"schema_version", "sources", "tables", "rows", "candidate_rows", "refused", "warnings"}
    assert answer["rows"] == answer["candidate_rows"] == sum(NUMBERS.values())
    assert answer["refused"] == []
    read = dict.fromkeys(answer["sources"], 0)
    for table in answer["tables"]:
        read[table["source"]] += len(table["rows"])
    assert [read[source] for source in sorted(read)] == list(NUMBERS.values())
    assert any("1.80x" in warning["message"] and warning["line"] == 19 for warning in answer["warnings"])


def test_rows_as_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "--rows", str(SEEDS / "001_07c4158c15b1b1b2.txt")]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 160
    assert rows[0]["source"].endswith("001_07c4158c15b1b1b2.txt")
    assert (rows[0]["table"], rows[0]["line"], rows[0]["collective"]) == (35, 37, "all_gather")
    assert rows[0]["figures"]["unstated"]["algbw_gbps"] == 19.63


def test_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(SEEDS / "000_4bd6902a841c76ab.txt")]) == 0
    shown = capsys.readouterr().out
    assert "160 of 160 rows read, 6 tables" in shown
    assert "states 32 GPUs" in shown
    assert "392.76" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("width", ["60", "80", "140"])
def test_the_summary_fits(width: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", width)
    main(["import", str(SEEDS / "002_d730ed66047f0856.txt"), str(GOLDEN / "text_options.txt")])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= int(width)


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data = (GOLDEN / "nccl_tests_2_19_6_single.txt").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["import", "-"]) == 0
    assert "29 of 29 rows" in capsys.readouterr().out


def test_refused_rows_are_shown_with_their_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (GOLDEN / "nccl_tests_2_19_6_single.txt").read_text().replace("4.82", "482.0")
    log = tmp_path / "log.txt"
    log.write_text(text.replace("16.32", "61.32"))
    assert main(["import", str(log)]) == 1
    shown = capsys.readouterr().out
    assert "28 of 29 rows read" in shown
    assert "refused: algbw 61.32 is not 65536 bytes / 4.02 us" in shown
    assert main(["import", "--rows", str(log)]) == 1
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 28
    assert f"{log}:22: refused" in captured.err or "refused: algbw 61.32" in captured.err
    assert main(["import", "--json", str(log)]) == 1
    (refusal,) = json.loads(capsys.readouterr().out)["refused"]
    assert refusal["source"] == str(log)
    assert "61.32" in refusal["text"]


@pytest.mark.parametrize("flags", [[], ["--json"], ["--rows"]])
@pytest.mark.parametrize("content", [b"", b"nothing of the kind\n", b"\x7fELF\0\0", b'{"version":9,"results":[]}'])
def test_unreadable_files(flags: list[str], content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    log.write_bytes(content)
    assert main(["import", *flags, str(log)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert captured.err.startswith("busbw: ")
    assert str(log) in captured.err


def test_one_bad_file_does_not_hide_a_good_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(tmp_path / "missing"), str(GOLDEN / "nccl_tests_2_19_6_single.txt")]) == 2
    captured = capsys.readouterr()
    assert "29 of 29 rows" in captured.out
    assert "cannot read" in captured.err


def test_a_folder_names_what_it_skips(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.log").write_bytes((GOLDEN / "nccl_tests_2_19_6_single.txt").read_bytes())
    (tmp_path / "notes.md").write_text("# nothing\n")
    (tmp_path / ".hidden").write_text("nothing\n")
    assert main(["import", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "29 of 29 rows" in captured.out
    assert captured.err.count("skipped") == 1
    (tmp_path / "deep" / "a.log").unlink()
    assert main(["import", str(tmp_path)]) == 2
    assert "no file in" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--collective", "allsum"], 'there is no collective "allsum"'),
        (["--collective", "broadcast"], "cannot be broadcast"),
        (["--json", "--rows"], "exclude each other"),
    ],
)
def test_usage_errors(words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", *words, str(SEEDS / "003_e7e147d892a8e7dd.txt")]) == 2
    assert sentence in capsys.readouterr().err


def test_records_on_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    data = (GOLDEN / "records.jsonl").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["import", "-"]) == 0
    assert "3 of 3 rows" in capsys.readouterr().out
    newer = data.replace(b'"schema_version":"1.', b'"schema_version":"7.')
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(newer)))
    assert main(["import", "-"]) == 2
    assert "standard input has record schema 7." in capsys.readouterr().err


def test_redacted(capsys: pytest.CaptureFixture[str]) -> None:
    log = str(SEEDS / "004_01261a79506a5607.txt")
    assert main(["import", "--json", "--redact", log]) == 0
    shown = capsys.readouterr().out
    assert "vmnetto9831" not in shown
    assert json.loads(shown)["rows"] == 87
    assert main(["import", "--redact", log]) == 2


def test_records_of_busbw(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(GOLDEN / "records.jsonl")]) == 0
    assert "3 of 3 rows" in capsys.readouterr().out


def test_file_contents_cannot_control_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (GOLDEN / "records.jsonl").read_text().replace('"float"', '"\\u001b[2Jx"')
    evil = tmp_path / "evil\x1b[2J\u202ename.jsonl"
    evil.write_text(text.replace('"5 wrong', '"\\u001b]0;pwn\\u0007'))
    main(["import", str(evil)])
    out = capsys.readouterr().out
    assert "name.jsonl" in out
    assert all(line.isprintable() for line in out.splitlines())


@pytest.mark.parametrize("option", ["--json", "--rows"])
def test_json_has_no_raw_control_characters(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "a\u202eb\x9b31m"
    path = tmp_path / f"{evil}.csv"
    path.write_text(
        f"size,name,type,redop,time,algbw,busbw\n1024,{evil},float,sum,1.0,1.02,1.02\n8,x,y,z,w\n{evil},1\n"
    )
    main(["import", option, str(path)])
    printed = capsys.readouterr()
    assert (printed.out + printed.err).replace("\n", "").isprintable()
    documents = map(json.loads, [printed.out] if option == "--json" else printed.out.splitlines())
    assert all((document.get("sources") or [document["source"]]) == [str(path)] for document in documents)
