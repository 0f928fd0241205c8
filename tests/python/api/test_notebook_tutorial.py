"""docs/tutorials/notebook.md: its code runs in order and prints what the page shows."""

import contextlib
import io
from pathlib import Path

import pytest
from conftest import ROOT
from doc_commands import make_page_folder, read_fences

PAGE = ROOT / "docs" / "tutorials" / "notebook.md"


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "page"
    make_page_folder(folder)
    monkeypatch.chdir(folder)
    fences = [fence for fence in read_fences(PAGE) if fence.language in ("python", "text")]
    assert len(fences) > 10
    names: dict[str, object] = {}
    printed = ""
    for fence in fences:
        if fence.language == "text":
            assert printed == fence.text, f"line {fence.line}"
            printed = ""
            continue
        assert printed == "", f"line {fence.line}: the page lacks the output before"
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(fence.text, f"{PAGE.name}:{fence.line}", "exec"), names)
        printed = output.getvalue()
    assert printed == ""
