"""Messages of `busbw replay` before it starts the engine."""

import pytest

from busbw.cli.main import main
from busbw.launchers import local


def test_an_unknown_name_leads_to_the_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", "llama-9b"]) == 2
    error = capsys.readouterr().err
    assert "llama-9b is neither a file, nor a run, nor a model; name a trace, or one of llama-70b-tp8, " in error


@pytest.mark.parametrize(
    ("words", "is_long"),
    [
        (["--backend", "host"], True),
        (["--backend=host"], True),
        ([], False),
        (["--backend", "host", "--shrink", "1000"], False),
    ],
)
@pytest.mark.usefixtures("here")  # the program of the replay is written there
def test_a_long_replay_on_the_host_leads_to_a_smaller_one(
    words: list[str], is_long: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "submit", refuse)
    main(["replay", "llama-7b-fsdp", "--scale", "2", "--records", "run.jsonl", *words])
    # Shares of two ranks: half of 32 * 772 + 1000 MiB to reduce, and half of 63 * 386 + 500 MiB to gather.
    assert ("A step has 24.67 GiB per rank, which takes minutes" in capsys.readouterr().err) == is_long
