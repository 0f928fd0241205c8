"""Messages of `busbw replay` before it starts the engine, and after the engine was killed."""

from itertools import pairwise

import pytest

from busbw.cli.main import main
from busbw.cli.traces import ReplayComparison, print_replay
from busbw.launchers import Job, local


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


@pytest.mark.parametrize(
    ("words", "iterations", "says_so"),
    [([], ["8"], True), (["-n", "30"], ["30"], False), (["--iters=30"], [], False), (["--shrink", "10"], [], False)],
)
@pytest.mark.usefixtures("here")
def test_few_long_steps_are_timed(
    words: list[str],
    iterations: list[str],
    says_so: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    jobs: list[Job] = []

    def stop(job: Job) -> None:
        jobs.append(job)
        raise KeyboardInterrupt

    monkeypatch.setattr(local, "render", stop)
    main(["replay", "llama-70b-tp8", "--records", "run.jsonl", *words])
    (job,) = jobs
    assert [value for flag, value in pairwise(job.arguments) if flag == "-n"] == iterations
    assert ("so only 8 steps are timed" in capsys.readouterr().err) == says_so


@pytest.mark.parametrize(
    ("code", "message"), [(137, "the engine was killed (SIGKILL)"), (131, "the engine was ended by SIGQUIT"), (143, "")]
)
@pytest.mark.usefixtures("here")
def test_a_killed_engine_is_reported(
    code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local, "submit", lambda *_: code)
    assert main(["replay", "llama-70b-tp8", "--shrink", "10", "--records", "run.jsonl"]) == (4 if message else 143)
    error = capsys.readouterr().err
    assert message in error
    assert bool(message) == error.startswith("busbw: ")


@pytest.mark.parametrize(
    ("interval_us", "expected"),
    [
        (None, "20.0% shorter."),
        ((780.0, 820.0), "20.0% shorter."),
        ((700.0, 1100.0), "recorded in 1 ms: no clear difference."),
    ],
)
def test_a_recorded_time_inside_of_the_interval_is_no_clear_difference(
    interval_us: tuple[float, float] | None, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    comparison = ReplayComparison(
        trace="job",
        step="step 2 of 3",
        ranks=2,
        recorded_us=1000.0,
        replayed_us=800.0,
        interval_us=interval_us,
        wrong_elements=None,
        calls=(),
        notes=(),
    )
    print_replay(comparison)
    assert capsys.readouterr().out.rstrip().endswith(expected)
