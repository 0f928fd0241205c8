"""`busbw runs`: the list of runs in the store."""

import json
from pathlib import Path

import pytest
from conftest import GOLDEN_RECORD, Busbw, one_sentence


@pytest.fixture(autouse=True)
def kept(here: Path) -> Path:
    """Three runs; the second measured something else."""
    store = here / "busbw-records"
    for day, collective in ((1, "all_reduce"), (2, "all_gather"), (3, "all_reduce")):
        text = GOLDEN_RECORD.read_text().replace("2026-11-21T08:16:39.123", f"2026-10-0{day}T12:00:00")
        folder = store / f"2026100{day}T120000Z-{collective}"
        folder.mkdir(parents=True)
        (folder / "records.jsonl").write_text(text.replace('"all_reduce"', f'"{collective}"'))
    return store


def first_words(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines()[1:]]


ALL = ["20261003T120000Z-all_reduce", "20261002T120000Z-all_gather", "20261001T120000Z-all_reduce"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ALL),
        (["--collective", "all_gather"], ALL[1:2]),
        (["--collective", "all_reduce_perf"], [ALL[0], ALL[2]]),
        (["--since", "2026-10-02"], ALL[:2]),
        (["--until", "2026-10-02"], ALL[2:]),
        (["--since", "2026-10-02T13:00+02:00", "--until", "2026-10-03"], ALL[1:2]),
        (["--backend", "host", "--host", "vm", "--library", "0.1", "--device", "epyc", "--ranks", "4"], ALL),
        (["--limit", "1"], ALL[:1]),
        (["--limit", "0"], ALL),
        (["--sizes", "..1K"], ALL),
        (["--rebuild"], ALL),
    ],
)
def test_filters(busbw: Busbw, words: list[str], expected: list[str]) -> None:
    done = busbw("runs", *words)
    assert done.returncode == 0
    assert first_words(done.stdout) == expected


def test_the_limit_is_reported(busbw: Busbw) -> None:
    assert busbw("runs", "--limit", "2").stderr == "the newest 2 of 3 runs; --limit 0 lists all\n"


def test_no_matching_run(busbw: Busbw) -> None:
    done = busbw("runs", "--host", "elsewhere")
    assert (done.returncode, done.stdout) == (0, "")
    assert "no run in busbw-records matches" in one_sentence(done.stderr)


@pytest.mark.parametrize("words", [["--collective", "broadcast"], ["--collective", "all_gather", "--ranks", "99"]])
def test_no_run_of_a_known_collective(busbw: Busbw, words: list[str]) -> None:
    done = busbw("runs", *words)
    assert (done.returncode, done.stdout) == (0, "")
    assert "no run in busbw-records matches" in one_sentence(done.stderr)


def test_a_collective_of_the_store_is_known(busbw: Busbw, kept: Path) -> None:
    record = kept / ALL[0] / "records.jsonl"
    record.write_text(record.read_text().replace('"all_reduce"', '"all_scatter"'))
    assert first_words(busbw("runs", "--collective", "all_scatter").stdout) == ALL[:1]
    assert busbw("runs", "--collective", "all_scatter", "--ranks", "99").returncode == 0


def test_rows(busbw: Busbw) -> None:
    done = busbw("runs", "--rows", "--collective", "all_gather", "--placement", "in_place", "--json")
    (point,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert point["collective"] == "all_gather"
    assert point["placement"] == "in_place"
    assert point["wrong_elements"] == 5
    assert len(busbw("runs", "--rows").stdout.splitlines()) == 1 + 3 * 4


def test_json(busbw: Busbw) -> None:
    runs = [json.loads(line) for line in busbw("runs", "--json").stdout.splitlines()]
    assert [run["name"] for run in runs] == ALL
    assert runs[0]["wrong"] == 1


@pytest.mark.parametrize(("hosts", "shown"), [(["a"], "a"), (["a", "b"], "a +1"), (["a", "b", "c", "d"], "a +3")])
def test_one_host_is_named_and_the_others_are_counted(busbw: Busbw, kept: Path, hosts: list[str], shown: str) -> None:
    path = kept / ALL[0] / "records.jsonl"
    run, *others = path.read_text().splitlines()
    record = json.loads(run)
    for rank in record["ranks"]:
        rank["host"] = hosts[rank["rank"] % len(hosts)]
    path.write_text("\n".join([json.dumps(record), *others]) + "\n")
    header, newest, *_ = busbw("runs", environment={"COLUMNS": "200"}).stdout.splitlines()
    assert newest[header.index("hosts") :].split("  ")[0] == shown


@pytest.mark.parametrize("columns", [60, 80, 140, 200])
def test_it_fits_the_width(busbw: Busbw, columns: int) -> None:
    for words in ([], ["--rows"]):
        done = busbw("runs", *words, environment={"COLUMNS": str(columns)})
        assert max(map(len, done.stdout.splitlines())) <= columns
        assert "WRONG" in done.stdout or words


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        (["--since", "yesterday"], '"yesterday"'),
        (["--sizes", "big"], '"big"'),
        (["--store", "nowhere"], "nowhere"),
        (["--placement", "in_place"], "--rows"),
        (["--ranks", "0"], "--ranks"),
        (["--collective", "all_redcue"], '--collective: there is no collective "all_redcue"; did you mean all_reduce?'),
    ],
)
def test_a_usage_error_is_refused(busbw: Busbw, words: list[str], piece: str) -> None:
    done = busbw("runs", *words)
    assert done.returncode == 2
    assert piece in one_sentence(done.stderr)


def test_a_damaged_index_and_an_unreadable_file(busbw: Busbw, kept: Path) -> None:
    busbw("runs")
    (kept / ".index.sqlite").write_bytes(b"rubbish" * 1000)
    (kept / "notes.txt").write_text("buy milk\n")
    done = busbw("runs")
    assert first_words(done.stdout) == ALL
    damaged, skipped = done.stderr.splitlines()
    assert "has been rebuilt" in damaged
    assert skipped.startswith("skipped: notes.txt: ")
