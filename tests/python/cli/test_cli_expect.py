"""`busbw expect` as a user calls it."""

import json

import pytest

from busbw.cli.main import main
from busbw.system import systems


def expect(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["expect", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", [name for name, system in systems().items() if system.fabrics])
@pytest.mark.parametrize("collective", ["all_reduce", "alltoall"])
def test_every_system_fits_the_width(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, collective: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = expect(capsys, collective, "--system", name, "--nics", "8x400", "--ranks", "16", "--explain")
    assert [line for line in shown.splitlines() if len(line) > 80 and "http" not in line] == []
    assert "limited by" in shown
    assert "sources of the constants" in shown


def test_the_binding_wire_and_its_load(capsys: pytest.CaptureFixture[str]) -> None:
    shown = " ".join(expect(capsys, "all_reduce", "--system", "a100-p4d", "--ranks", "16", "--sizes", "8G").split())
    assert "limited by NIC, on the route Tree" in shown
    assert "0.53 GB/s cross it for each GB/s of busbw" in shown


def test_sizes_of_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(expect(capsys, "all_gather", "--system", "h200-sxm", "-b", "1K", "-e", "1M", "-f", "4", "--json"))
    assert [one["size_bytes"] for one in told["estimates"]] == [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20]
    assert told["job"]["ranks"] == 8


def test_sizes_of_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(expect(capsys, "all_reduce", "--system", "b200", "--sizes", "8G,8,1m", "--json"))
    assert [one["size_bytes"] for one in told["estimates"]] == [8, 1 << 20, 8 << 30]


def test_without_nvls_the_ring_is_best(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(expect(capsys, "all_reduce", "--system", "h200-sxm", "--no-nvls", "--sizes", "16G", "--json"))
    assert told["estimates"][0]["route"] == "Ring"
    told = json.loads(expect(capsys, "all_reduce", "--system", "h200-sxm", "--algorithm", "Tree", "--json"))
    assert {one["route"] for one in told["estimates"]} == {"Tree"}


def test_this_machine_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "this machine" in expect(capsys, "all_reduce")


def test_a_reference_is_shown_beside_the_prediction(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = ("all_reduce", "--system", "h200-sxm", "--ranks", "4", "--reference", "auto")
    shown = expect(capsys, *arguments)
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert "reference     h200-x4" in shown
    assert "of expected" in shown
    told = json.loads(expect(capsys, *arguments, "--json"))
    assert told["reference"]["is_comparable"]
    assert {one["size_bytes"] for one in told["reference"]["figures"]} < {
        one["size_bytes"] for one in told["estimates"]
    }


def test_no_reference_is_shown_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert "reference" not in json.loads(expect(capsys, "all_reduce", "--system", "h200-sxm", "--json"))


def test_ranks_of_processors_share_a_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert "4 ranks on 1 node of host" in expect(capsys, "all_reduce", "--system", "host", "--ranks", "4")


def test_the_systems_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = expect(capsys, "--list-systems")
    assert [name for name in systems() if name not in shown] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "no collective is given"),
        (["all_redcue"], 'there is no collective "all_redcue"'),
        (["all_reduce", "--system", "h1000"], 'there is no system "h1000"'),
        (
            ["all_reduce", "--system", "x9"],
            'there is no system "x9"; use here, a machine type, a .toml file or one of a100-',
        ),
        (["all_reduce", "--system", "h100"], 'there is no system "h100"; did you mean h100-a3-mega, '),
        (["all_reduce", "--nics", "8"], '--nics "8" is not COUNTxGBIT'),
        (["all_reduce", "--nics", "0x400"], "is not COUNTxGBIT"),
        (["all_reduce", "--sizes", "8,big"], '--sizes "big" is not a size'),
        (["all_reduce", "--sizes", "8", "-b", "8"], "--sizes excludes -b, -e and -f"),
        (["all_reduce", "-b", "1G", "-e", "1M"], "-b 1G is larger than -e 1M"),
        (["all_reduce", "-b", "0"], '-b "0" is not a size'),
        (["all_reduce", "--algorithm", "Snake"], '--algorithm "Snake" is not an algorithm'),
        (
            ["all_reduce", "--algorithm", "NVLS", "--no-nvls"],
            "--algorithm NVLS and --no-nvls exclude each other; drop one",
        ),
        (
            ["all_reduce", "--no-nvls", "--algorithm", "nvlstree"],
            "--algorithm nvlstree and --no-nvls exclude each other",
        ),
        (["all_reduce", "--reference", "h1000"], 'there is no reference "h1000"'),
        (["all_reduce", "--ranks", "0"], "0 is not in the range"),
        (["all_reduce", "--ranks", "9" * 20], "is not in the range"),
        (["all_reduce", "-d", "flaot"], '-d "flaot" is not an element type; did you mean float? allowed are int8, '),
        (["all_reduce", "-b", ""], '-b "" is not a size'),
        (["all_reduce", "-e", ""], '-e "" is not a size'),
        (["all_reduce", "--nics", ""], '--nics "" is not COUNTxGBIT'),
    ],
)
def test_a_usage_error_is_one_sentence_and_exit_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["expect", *arguments]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert words in said
