"""A screen and a page show the first part of a long log, and say what they leave out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sample_logs

from busbw.cli import report
from busbw.cli.main import main
from busbw.logs.log import Row
from busbw.terminal import screen

HEAD = "# nThread 1 nGpus 4 minBytes 8 maxBytes 8589934592 step: 2(factor) warmup iters: 1 iters: 20\n"
COLUMNS = "# size count type redop root" + 2 * " time algbw busbw #wrong" + "\n"
ROW = "262144 65536 float sum -1" + 2 * " 21.00 12.48 18.72 0" + "\n"
WRONG_ROW = "262144 65536 float sum -1 21.00 12.48 18.72 7 21.00 12.48 18.72 0\n"


@pytest.fixture
def log(tmp_path: Path) -> str:
    """A log with three tables, of which the last has wrong data."""
    path = tmp_path / "log.txt"
    tables = (3 * ROW, 3 * ROW, 2 * ROW + WRONG_ROW)
    path.write_text("".join(HEAD + COLUMNS + rows + "# Avg bus bandwidth    : 18.72\n" for rows in tables))
    return str(path)


def test_show_counts_what_it_leaves_out(
    log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(screen, "MAX_TABLES", 1)
    monkeypatch.setattr(screen, "MAX_ROWS", 2)
    assert main(["show", "--no-plot", log]) == 1
    text = capsys.readouterr().out
    assert "data: right in all 6 measurements" in text
    assert text.count("256 KiB") == 2
    assert "and 1 more row; `busbw export csv` writes all" in text
    assert "and 2 more tables, 1 of them with WRONG data; --table N shows one" in text
    main(["show", "--no-plot", "--table", "3", log])
    text = capsys.readouterr().out
    assert "WRONG in 1 of 6 measurements" in text
    assert "more table" not in text


def test_show_reads_no_rows_of_tables_that_the_user_does_not_select() -> None:
    class UnreadRows(Sequence[Row]):
        def __len__(self) -> int:
            raise AssertionError("read")

        def __getitem__(self, index: object) -> Any:
            raise AssertionError("read")

    log = sample_logs.log(sample_logs.table(), sample_logs.table(rows=UnreadRows()))
    assert list(screen.log_lines(log, width=80, draw=False, numbers=[1]))


def test_report_warns_of_what_it_leaves_out(log: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    monkeypatch.setattr(report, "_MAX_TABLES", 2)
    monkeypatch.setattr(report, "_MAX_ROWS", 1)
    assert main(["report", "-o", str(page), log]) == 1
    text = page.read_text()
    assert "this page covers 2 of 9 rows in 2 of 3 tables" in text
    assert "the rest has WRONG data" in text
