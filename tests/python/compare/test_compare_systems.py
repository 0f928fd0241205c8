"""Figures of unlike systems are neither paired nor averaged."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.compare import compare_logs, compare_variants
from busbw.errors import UsageError
from busbw.logs.log import Figure, Log, Rank, Row, Table
from busbw.readers import read

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
SEEDS = {path.name[:3]: path for path in sorted((GOLDEN / "seeds").iterdir())}
MIB = 1 << 20


def table(time_us: float, device: str | None = "NVIDIA H200", hosts: int = 1, **changes: object) -> Table:
    rows = tuple(
        Row(
            line=1, size_bytes=size * MIB, dtype="float", redop="sum", figures={"out_of_place": Figure(time_us=time_us)}
        )
        for size in (64, 128)
    )
    ranks = tuple(Rank(rank=number, host=f"n{number * hosts // 4}", device_name=device) for number in range(4))
    fields = {"format": "a test", "collective": "all_reduce", "ranks": 4, "rows": rows, "complete": True} | changes
    return Table(rank_list=ranks if device else (), **fields)  # type: ignore[arg-type]


def log(*tables: Table) -> Log:
    return Log(source="x", tables=tables)


def speedups(a: Log, b: Log, **options: bool) -> list[float | None]:
    return [result.speedup for result in compare_logs(a, b, **options).results]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (table(100), table(100, "NVIDIA H100"), "system NVIDIA H200 SXM5, 1 host against NVIDIA H100 SXM5, 1 host"),
        (table(100), table(100, hosts=2), "system NVIDIA H200 SXM5, 1 host against NVIDIA H200 SXM5, 2 hosts"),
        (
            table(100, "AMD EPYC", settings={"backend": "host"}),
            table(100, "AMD EPYC", settings={"backend": "host", "machine.transport": "tcp sockets"}),
            "1 host, shared memory against AMD EPYC, 1 host, tcp sockets",
        ),
    ],
)
def test_unlike_systems_are_refused_unless_the_user_wants_them(a: Table, b: Table, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refusal:
        compare_logs(log(a), log(b))
    assert "--any-system" in str(refusal.value)
    comparison = compare_logs(log(a), log(b), any_system=True)
    assert [result.speedup for result in comparison.results] == [1.0, 1.0]
    assert any(sentence.startswith("Unlike systems: ") for sentence in comparison.warnings)


def test_only_like_systems_are_paired() -> None:
    a = log(table(100, "NVIDIA H200"), table(200, "NVIDIA H100"))
    b = log(table(400, "NVIDIA H100"), table(50, "NVIDIA H200"))
    comparison = compare_logs(a, b)
    assert {(result.point.system, result.speedup) for result in comparison.results} == {
        ("NVIDIA H200 SXM5, 1 host", 2.0),
        ("NVIDIA H100 SXM5, 1 host", 0.5),
    }
    assert (
        "(NVIDIA H200 SXM5, 1 host)"
        in comparison.results[0].point.configuration_text + comparison.results[-1].point.configuration_text
    )


def test_repetitions_on_one_system_are_still_averaged() -> None:
    comparison = compare_logs(log(*[table(100)] * 4), log(*[table(50)] * 4))
    assert [result.basis for result in comparison.results] == ["runs"] * 2
    assert [result.speedup for result in comparison.results] == pytest.approx([2.0, 2.0])
    assert all(result.point.system is None for result in comparison.results)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (table(1, library="NCCL 2.27.3"), table(1, library="NCCL 2.28.9"), "library NCCL 2.27.3 against NCCL 2.28.9"),
        (table(1, settings={"graph": "0"}), table(1, settings={"graph": "1"}), "method default against graph_launches"),
        (table(1, settings={"nGpus": "1"}), table(1, settings={"nGpus": "4"}), "launches 1 per thread against 4"),
        (table(1, None, title="Rack 1"), table(1, None, title="Rack 2"), "heading Rack 1 against Rack 2"),
    ],
)
def test_unlike_runs_of_one_side_are_not_averaged(first: Table, second: Table, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        compare_logs(log(first, second), log(table(1)))


def test_a_system_that_may_be_several_is_refused() -> None:
    both = log(table(100, "NVIDIA H200"), table(200, "NVIDIA H100"))
    with pytest.raises(UsageError, match="unstated system of B may be NVIDIA H200 SXM5, 1 host or NVIDIA H100 SXM5"):
        compare_logs(both, log(table(100, None)))


def test_what_one_side_does_not_state_is_said() -> None:
    one = compare_logs(log(table(100)), log(table(100, None)))
    assert "GPU not stated by B: assumed to be equal." in one.warnings
    none = compare_logs(log(table(100, None)), log(table(100, None)))
    assert "Neither side states its GPU: whether both ran on like systems is not known." in none.warnings


def test_processors_are_not_called_gpus() -> None:
    host = {"backend": "host"}
    epyc, xeon = log(table(100, "AMD EPYC", settings=host)), log(table(100, "Intel Xeon", settings=host))
    assert (
        "Unlike systems: processor AMD EPYC against Intel Xeon." in compare_logs(epyc, xeon, any_system=True).warnings
    )
    gpus = log(table(100, "NVIDIA H200"))
    unlike = compare_logs(epyc, gpus, any_system=True).warnings
    assert "Unlike systems: device AMD EPYC against NVIDIA H200 SXM5." in unlike
    none = compare_logs(log(table(100, None, settings=host)), log(table(100, None, settings=host)))
    assert "Neither side states its processor: whether both ran on like systems is not known." in none.warnings


@pytest.mark.parametrize("logs", [("000", "003"), ("003", "000"), ("003", "003")])
def test_two_kinds_of_machine_in_one_report_are_not_averaged(logs: Sequence[str]) -> None:
    """003 has p4de and p5 under one heading. Only the sizes of their sweeps differ."""
    with pytest.raises(
        UsageError, match="unlike runs of all_reduce float sum 16 ranks in lines 126 and 161: sweep 8 B"
    ):
        compare_logs(*(read(SEEDS[name]) for name in logs))


def test_h100_and_h800_of_one_report_are_separate() -> None:
    report = read(SEEDS["000"])
    at_8_gib = {
        result.point.system: result.a.busbw_gbps
        for result in compare_logs(report, report).results
        if (result.point.collective, result.point.ranks) == ("all_reduce", 16)
        and (result.point.placement, result.point.size_bytes) == ("out_of_place", 8 << 30)
    }
    assert at_8_gib == {"NVIDIA H100 SXM5, 8 x 400 Gb/s": 391.45, "NVIDIA H800 SXM5, 4 x 400 Gb/s": 165.05}
    with pytest.raises(UsageError, match="system NVIDIA H100 SXM5"):
        compare_variants(report, ("#1", "#2"))


def test_the_command_has_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", str(SEEDS["000"]), "--variants", "#1", "#2"]
    assert main(arguments) == 2
    assert "--any-system" in capsys.readouterr().err
    assert main([*arguments, "--any-system"]) == 0
    assert "Unlike systems: GPU NVIDIA H100 SXM5 against NVIDIA H800 SXM5." in capsys.readouterr().out
