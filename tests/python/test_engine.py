"""Queries of the engine's programs."""

import os
import resource

import pytest
from conftest import FakeEngine, one_sentence

import busbw
from busbw import engine
from busbw.cli.main import main

OLD_ENGINE = """#!/bin/sh
case $1 in
--version) printf 'busbw 0.0.9\\nbackend host 0.0.9\\n' ;;
*)
  echo "busbw-engine: busbw-engine $1: no collective before the options; name one of all_reduce all_gather" >&2
  exit 2
  ;;
esac
"""


def test_an_engine_without_a_flag_is_of_another_version(
    fake_engine: FakeEngine, capsys: pytest.CaptureFixture[str], here: object
) -> None:
    del here
    program = fake_engine.folder / "busbw-engine"
    program.write_text(OLD_ENGINE)
    assert main(["run", "all_reduce"]) == 3
    assert one_sentence(capsys.readouterr().err) == (
        f"busbw: engine and busbw differ in version: {program} is 0.0.9 and lacks --world, busbw is "
        f"{busbw.__version__}; install busbw again"
    )


def test_a_query_that_hangs_ends_and_does_not_blame_the_installation(
    fake_engine: FakeEngine, capsys: pytest.CaptureFixture[str], here: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    del here
    monkeypatch.setattr(engine, "_QUERY_LIMIT_S", 0.2)
    (fake_engine.folder / "busbw-engine").write_text("#!/bin/sh\nexec sleep 600\n")
    assert main(["run", "all_reduce"]) == 3
    message = one_sentence(capsys.readouterr().err)
    assert "busbw-engine --world did not end within 0.2 s; check nvidia-smi" in message
    assert "install" not in message


def test_too_few_open_files_do_not_blame_the_installation(
    fake_engine: FakeEngine, capsys: pytest.CaptureFixture[str], here: object
) -> None:
    del here
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))
    try:
        code = main(["run", "all_reduce"])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert code == 3
    assert "failed: Too many open files; raise the limit of open files (ulimit -n)" in capsys.readouterr().err
