"""Old spellings of options and commands: each still works, prints the new spelling and is missing in the help."""

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from conftest import GOLDEN_RECORD, Busbw

from busbw.cli.main import cli, main
from busbw.store import Filter

ALL_REDUCE = ("--", "all_reduce", "-b", "8", "-e", "8")
SLURM = ("launch", "slurm", "--dry-run")
MPIRUN = ("launch", "mpirun", "--dry-run", "--hosts", "a")
KUBERNETES = ("launch", "kubernetes", "--dry-run", "--image", "i")

RENAMED = [
    (("launch", "local", "--dry-run"), ("--system", "host"), ("--machine-type", "host")),
    (SLURM, ("--by", "sbatch"), ("--submit-with", "sbatch")),
    (SLURM, ("--by=srun",), ("--submit-with=srun",)),
    (SLURM, ("--folder", "out"), ("--output-folder", "out")),
    (SLURM, ("--script",), ("--print-script",)),
    (SLURM, ("--steps", "3"), ("--repeat", "3")),
    (MPIRUN, ("--mpi", "mpich"), ("--mpi-family", "mpich")),
    (MPIRUN, ("--store-folder", "/shared"), ("--rendezvous-folder", "/shared")),
    (KUBERNETES, ("--kind", "jobset"), ("--workload-kind", "jobset")),
    (KUBERNETES, ("--patience", "3"), ("--pending-timeout", "3")),
    (KUBERNETES, ("--tolerate", "a", "--tolerate", "b"), ("--toleration", "a", "--toleration", "b")),
]
"""Options of launchers: the command, the old words and the new words."""

SPELLINGS: dict[tuple[str, ...], dict[str, str]] = {
    ("expect",): {"--systems": "--list-systems"},
    ("topo",): {"--all": "--virtual"},
    ("runs",): {"--system": "--device"},
    ("history",): {"--system": "--device"},
    ("ab",): {"--quadruples": "--max-quadruples", "--folder": "--records-folder"},
    ("tune",): {
        "--with": "--common",
        "--confirm": "--max-confirm",
        "--quadruples": "--max-quadruples",
        "--folder": "--records-folder",
    },
    ("fastpath", "tune"): {"--folder": "--records-folder"},
    **{("launch", kind): {"--system": "--machine-type"} for kind in ("local", "ssh")},
    ("launch", "mpirun"): {
        "--system": "--machine-type",
        "--mpi": "--mpi-family",
        "--store-folder": "--rendezvous-folder",
    },
    ("launch", "slurm"): {
        "--system": "--machine-type",
        "--by": "--submit-with",
        "--folder": "--output-folder",
        "--script": "--print-script",
        "--steps": "--repeat",
    },
    ("launch", "kubernetes"): {
        "--system": "--machine-type",
        "--kind": "--workload-kind",
        "--patience": "--pending-timeout",
        "--tolerate": "--toleration",
    },
}
"""Every old spelling and the new one, by command."""


@pytest.fixture(autouse=True)
def _fixed_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda size: "ab" * size)
    monkeypatch.setattr("secrets.choice", lambda options: options[0])
    monkeypatch.setattr("busbw.cli.launch.local._free_port", lambda: 20000)


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


@pytest.mark.usefixtures("fake_engine")
@pytest.mark.parametrize(("command", "old", "new"), RENAMED, ids=lambda words: words[0])
def test_an_old_spelling_works_and_prints_the_new_one(
    command: tuple[str, ...],
    old: tuple[str, ...],
    new: tuple[str, ...],
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    del here
    monkeypatch.setattr("sys.argv", ["busbw"])
    assert main([*command, *new, *ALL_REDUCE]) == 0
    expected = capsys.readouterr()
    assert main([*command, *old, *ALL_REDUCE]) == 0
    shown = capsys.readouterr()
    line = f"busbw: {old[0].partition('=')[0]} is deprecated: use {new[0].partition('=')[0]}\n"
    assert (shown.out, shown.err) == (expected.out, line + expected.err)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("expect", "--systems"), "--systems is deprecated: use --list-systems"),
        (
            ("expect", "all_reduce", "--system", "auto"),
            "busbw expect --system auto is deprecated: use busbw expect --system here",
        ),
        (("topo", "--all"), "--all is deprecated: use --virtual"),
        (("launch", "systems"), "busbw launch systems is deprecated: use busbw launch machine-types"),
        (("launch", "systems", "host"), "busbw launch systems is deprecated: use busbw launch machine-types"),
        (("runs", "--system", "vm"), "--system is deprecated: use --device or --host"),
        (("history", "all_reduce", "--system", "vm"), "--system is deprecated: use --device or --host"),
    ],
)
@pytest.mark.usefixtures("fake_engine")
def test_old_words_of_other_commands_work(words: tuple[str, ...], line: str, here: Path, busbw: Busbw) -> None:
    folder = here / "busbw-records" / "20261001T120000Z-all_reduce"
    folder.mkdir(parents=True)
    (folder / "records.jsonl").write_bytes(GOLDEN_RECORD.read_bytes())
    done = busbw(*words)
    assert (done.returncode, done.stderr.splitlines()[:1]) == (0, [f"busbw: {line}"])
    assert done.stdout


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("ab", "--quadruples", "12", "nope"), "--quadruples is deprecated: use --max-quadruples"),
        (("ab", "--folder", "x", "nope"), "--folder is deprecated: use --records-folder"),
        (("tune", "--quadruples", "12", "nope"), "--quadruples is deprecated: use --max-quadruples"),
        (("tune", "--folder", "x", "nope"), "--folder is deprecated: use --records-folder"),
        (("tune", "--with", "A=1", "nope"), "--with is deprecated: use --common"),
        (("tune", "--confirm", "2", "nope"), "--confirm is deprecated: use --max-confirm"),
        (("fastpath", "tune", "--folder", "x", "--ranks", "1"), "--folder is deprecated: use --records-folder"),
    ],
)
def test_old_spellings_of_measuring_commands_are_parsed(
    words: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wrong collective or rank count ends the command after the options were parsed."""
    assert main(words) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"busbw: {line}"
    assert "nope" in second or "--ranks" in second


def test_a_wrong_value_is_refused_under_the_new_spelling(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SLURM, "--by", "carrier-pigeon", *ALL_REDUCE]) == 2
    assert "'--submit-with'" in capsys.readouterr().err


def test_both_spellings_at_once_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*SLURM, "--by", "srun", "--submit-with", "srun", *ALL_REDUCE]) == 2
    assert "--by is the old spelling of --submit-with; give only the new one" in capsys.readouterr().err


def recorder(wanted: list[Filter]) -> Callable[..., list[object]]:
    """Returns a query that appends its filter to `wanted` and finds nothing."""

    def query(_connection: object, wants: Filter, limit: int | None) -> list[object]:
        wanted.append(wants)
        return []

    return query


def test_both_spellings_of_an_option_that_repeats_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*KUBERNETES, "--tolerate", "first", "--toleration", "second", *ALL_REDUCE]) == 0
    manifest = capsys.readouterr().out
    assert "first" in manifest
    assert "second" in manifest


def test_the_old_filter_keeps_its_meaning(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wanted: list[Filter] = []
    monkeypatch.setattr("busbw.cli.runs.list_runs", recorder(wanted))
    assert main(["runs", "--system", "node7", "--device", "H100"]) == 0
    capsys.readouterr()
    assert [(each.host_or_device, each.device) for each in wanted] == [("node7", "H100")]


@pytest.mark.parametrize(
    ("words", "placement"), [("in", "in_place"), ("out", "out_of_place"), ("in_place", "in_place")]
)
def test_a_placement_may_be_named_as_the_engine_does(
    words: str, placement: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted: list[Filter] = []
    monkeypatch.setattr("busbw.cli.runs.list_points", recorder(wanted))
    assert main(["runs", "--rows", "--placement", words]) == 0
    capsys.readouterr()
    assert [each.placement for each in wanted] == [placement]


def test_types_and_operators_may_be_named_as_nccl_tests_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted: list[Filter] = []
    monkeypatch.setattr("busbw.cli.runs.list_runs", recorder(wanted))
    assert main(["runs", "--datatype", "half", "--op", "max"]) == 0
    assert [(each.dtype, each.redop) for each in wanted] == [("half", "max")]
    assert main(["expect", "all_reduce", "--system", "h100-sxm", "--datatype", "half"]) == 0
    assert capsys.readouterr().out.startswith("all_reduce half")


def test_no_help_shows_an_old_spelling_and_none_shadows_another_option() -> None:
    tested: set[tuple[str, ...]] = set()
    for path, command in commands(cli):
        # click keeps the first names of the help option, also for later tests.
        context = click.Context(command, info_name=" ".join(path), **cli.context_settings)
        names = [name for option in command.params for name in (*option.opts, *option.secondary_opts)]
        assert len(names) == len(set(names)), path
        shown = {name for line in command.get_help(context).split("\n") for name in line.replace(",", " ").split()[:3]}
        hidden = {name for one in command.params if getattr(one, "hidden", False) for name in one.opts}
        assert hidden == SPELLINGS.get(path, {}).keys(), path
        assert not hidden & shown, path
        assert set(SPELLINGS.get(path, {}).values()) <= shown, path
        tested.add(path)
    assert tested >= SPELLINGS.keys()


def test_the_help_of_launch_shows_no_old_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "machine-types" in shown
    assert "systems" not in shown
