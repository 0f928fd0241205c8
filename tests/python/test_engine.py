"""Queries of the engine's programs."""

import pytest
from conftest import FakeEngine, one_sentence

import busbw
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
