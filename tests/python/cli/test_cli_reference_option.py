"""Values of --reference."""

import shutil
from pathlib import Path

import pytest
from conftest import GOLDEN_RECORD

from busbw.cli.options.reference_option import select_reference
from busbw.errors import UsageError


def test_a_run_of_the_store_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_STORE", str(tmp_path))
    run = tmp_path / "20261121T120000Z-all_reduce"
    run.mkdir()
    shutil.copy(GOLDEN_RECORD, run / "records.jsonl")
    for name in ("last", "20261121"):
        found = select_reference(name)
        assert found is not None
        assert found.log is not None
        assert found.log.source == str(run / "records.jsonl")


def test_an_unknown_name_lists_the_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUSBW_STORE", str(tmp_path))
    with pytest.raises(UsageError, match='there is no reference "h1000"'):
        select_reference("h1000")
