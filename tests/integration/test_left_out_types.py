"""Are types that NCCL or a GPU cannot do left out of `-d all`, by all processes, and refused where they are named?

CUDA and NCCL are pretended (bench/pretended_*): nothing moves, so nothing is checked.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .programs import Finished, Programs, of_kind, read_records, used_from
from .test_launched import port, variables

BUILD = Path(__file__).resolve().parents[2] / "build" / "gpu-compile"
ENGINE = "busbw-engine-pretended"
FLOAT8 = {"f8e4m3", "f8e5m2"}
OLD_NCCL, NEW_NCCL = "21803", "22809"
OLD_GPU, NEW_GPU = "80", "90"
TYPES = 12


@pytest.fixture
def pretended(tmp_path: Path) -> Iterator[Programs]:
    if not (BUILD / ENGINE).exists():
        pytest.skip(f"there is no {BUILD / ENGINE}: tools/test.sh builds it where it has CUDA's compiler")
    yield from used_from(BUILD, tmp_path)


def run(programs: Programs, collective: str, dtype: str, *gpus: str, nccl: str) -> list[Finished]:
    """One process for each of the GPUs, which are told by their compute capability."""
    store = f"tcp://127.0.0.1:{port()}"
    pretend = {"BUSBW_NCCL_LIBRARY": str(BUILD / "libpretended_nccl.so"), "BUSBW_PRETENDED_NCCL": nccl}
    arguments = [collective, "-d", dtype, "--sizes", 64, "-n", 1, "-c", 0, "--records", "out.jsonl"]
    job = [
        programs.start(
            ENGINE,
            *arguments,
            environment=pretend
            | {"BUSBW_PRETENDED_CAPABILITY": capability}
            | (variables(process, len(gpus), store) if len(gpus) > 1 else {}),
        )
        for process, capability in enumerate(gpus)
    ]
    return [running.finish() for running in job]


def measured(programs: Programs, finished: list[Finished]) -> tuple[set[str], list[str]]:
    """The types that were, and what the table and the record say of those that were not."""
    assert [(process.code, process.stderr) for process in finished] == [(0, "")] * len(finished)
    records = read_records(programs.folder / "out.jsonl")
    (described,) = of_kind(records, "run")
    notes = [note for note in described["notes"] if note.startswith("-d all")]
    assert [line[2:] for line in finished[0].stdout.splitlines() if line.startswith("# -d all")] == notes
    return {row["dtype"] for row in of_kind(records, "row")}, notes


@pytest.mark.parametrize("collective", ["all_reduce", "broadcast"])
def test_a_library_without_8_bit_floats(pretended: Programs, collective: str) -> None:
    dtypes, notes = measured(pretended, run(pretended, collective, "all", NEW_GPU, nccl=OLD_NCCL))
    assert (len(dtypes), dtypes & FLOAT8) == (TYPES - 2, set())
    (note,) = notes
    assert note.startswith("-d all leaves out f8e4m3 and f8e5m2: NCCL 2.18.3 (")
    assert note.endswith("has no 8-bit floats; use 2.24 or later (--library, BUSBW_NCCL_LIBRARY) to measure them")


@pytest.mark.parametrize(
    ("collective", "count"), [("all_reduce", TYPES - 2), ("reduce_scatter", TYPES - 2), ("broadcast", TYPES)]
)
def test_a_gpu_that_does_not_reduce_them(pretended: Programs, collective: str, count: int) -> None:
    dtypes, notes = measured(pretended, run(pretended, collective, "all", OLD_GPU, nccl=NEW_NCCL))
    assert (len(dtypes), len(notes)) == (count, 0 if count == TYPES else 1)
    for note in notes:
        assert "from compute capability 9.0 on, and GPU 0 (0000:00:00) has 8.0; use newer GPUs" in note


def test_nothing_is_left_out_where_all_can_be_done(pretended: Programs) -> None:
    dtypes, notes = measured(pretended, run(pretended, "all_reduce", "all", NEW_GPU, nccl=NEW_NCCL))
    assert (len(dtypes), notes) == (TYPES, [])


def test_all_processes_leave_out_what_one_of_them_cannot_do(pretended: Programs) -> None:
    dtypes, notes = measured(pretended, run(pretended, "all_reduce", "all", NEW_GPU, OLD_GPU, nccl=NEW_NCCL))
    assert (len(dtypes), dtypes & FLOAT8) == (TYPES - 2, set())
    (note,) = notes
    assert "f8e4m3 and f8e5m2: process 1 on " in note
    assert "GPU 1 (0000:00:01) has 8.0" in note


@pytest.mark.parametrize(
    ("gpus", "nccl", "said"),
    [
        ([NEW_GPU], OLD_NCCL, ["NCCL 2.18.3 (", "use 2.24 or later (--library, BUSBW_NCCL_LIBRARY)"]),
        ([OLD_GPU], NEW_NCCL, ["GPU 0 (0000:00:00) has 8.0", "use newer GPUs"]),
        ([NEW_GPU, OLD_GPU], NEW_NCCL, ["GPU 1 (0000:00:01) has 8.0", "use newer GPUs"]),
    ],
)
def test_one_that_is_named_is_refused(pretended: Programs, gpus: list[str], nccl: str, said: list[str]) -> None:
    processes = run(pretended, "all_reduce", "f8e4m3", *gpus, nccl=nccl)
    assert len(gpus) == 1 or "rank 1" in processes[0].sentence()
    for process in processes:
        assert (process.code, process.stdout) == (3, "")
        for words in ["-d f8e4m3 (--datatype)", *said, "or measure another type"]:
            assert words in process.sentence()
    assert not (pretended.folder / "out.jsonl").exists()
