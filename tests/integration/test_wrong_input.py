"""Is every doubt about a command line refused in one clear sentence, with nothing measured and nothing left behind?

And the other side: what nccl-tests documents runs here with the same meaning.
"""

from pathlib import Path

import pytest

from .programs import Finished, Programs, of_kind, read_records
from .table import rows_by_blanks, rows_by_pattern

DTYPES = "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 all"
OPS = "sum prod max min avg mulsum all"
SIZE = "a size of at least 1 byte"
NOT_ON_HOST = "which the host backend cannot do"

# A command line, and what the sentence must hold: the option in both spellings, the value, what is allowed.
REFUSED: list[tuple[str, list[str]]] = [
    # not an option
    ("--frobnicate", ["--frobnicate", "unknown option", "--help"]),
    ("--frobnicate 3", ["--frobnicate", "unknown option", "--help"]),
    ("--frobnicate=3", ["--frobnicate=3", "unknown option", "--help"]),
    ("--minbyte 8", ["--minbyte", "unknown option"]),
    ("-q", ["-q", "unknown option"]),
    ("-B 8", ["-B", "unknown option"]),
    ("8", ["unexpected argument", "8"]),
    ("all_gather", ["unexpected argument", "all_gather"]),
    # no value
    ("-b", ["-b", "--minbytes", "missing", "--help"]),
    ("-b -e", ["-b", "--minbytes", "missing", "--help"]),
    ("--nthreads", ["-t", "--nthreads", "missing", "--help"]),
    ("--records", ["--records", "missing", "--help"]),
    # types, operators, roots
    ("-d flaot", ["-d", "--datatype", "flaot", DTYPES]),
    ("-d Float", ["-d", "--datatype", "Float", DTYPES]),
    ("-d float32", ["-d", "--datatype", "float32", DTYPES]),
    ("-d float,half", ["-d", "--datatype", "float,half", DTYPES]),
    ("--datatype=int", ["-d", "--datatype", "int", DTYPES]),
    ("-o summ", ["-o", "--op", "summ", OPS]),
    ("-o SUM", ["-o", "--op", "SUM", OPS]),
    ("-r 2", ["-r", "--root", "2", "0 to 1, or all"]),
    ("-r -2", ["-r", "--root", "-2", "or all"]),
    ("-r one", ["-r", "--root", "one", "or all"]),
    ("-r 1.0", ["-r", "--root", "1.0", "or all"]),
    ("-r 99999999999999999999", ["-r", "--root", "99999999999999999999", "or all"]),
    # sizes
    ("-b 1Q", ["-b", "--minbytes", "1Q", SIZE]),
    ("-b -1", ["-b", "--minbytes", "-1", SIZE]),
    ("-b 0", ["-b", "--minbytes", "0", SIZE]),
    ("-b +8", ["-b", "--minbytes", "+8", SIZE]),
    ("-b 8KQ", ["-b", "--minbytes", "8KQ", SIZE]),
    ("-b 8Ki", ["-b", "--minbytes", "8Ki", SIZE]),
    ("-b 1P", ["-b", "--minbytes", "1P", SIZE]),
    ("-b 0x10", ["-b", "--minbytes", "0x10", SIZE]),
    ("-b 1.3", ["-b", "--minbytes", "1.3", SIZE]),
    ("-b 1,000", ["-b", "--minbytes", "1,000", SIZE]),
    ("-b 1e", ["-b", "--minbytes", "1e", SIZE]),
    ("-b 1e999", ["-b", "--minbytes", "1e999", SIZE]),
    ("-b 1e30", ["-b", "--minbytes", "1e30", SIZE]),
    ("-b inf", ["-b", "--minbytes", "inf", SIZE]),
    ("-b nan", ["-b", "--minbytes", "nan", SIZE]),
    ("-b M", ["-b", "--minbytes", "M", SIZE]),
    ("-b 8\u202f", ["-b", "--minbytes", SIZE]),
    ("-e 1Q", ["-e", "--maxbytes", "1Q", SIZE]),
    ("-e 0", ["-e", "--maxbytes", "0", SIZE]),
    ("-b 2M -e 1M", ["-b", "2M", "-e", "1M", "--minbytes", "--maxbytes"]),
    ("-e 4", ["-b", "-e 4", "--minbytes", "--maxbytes"]),
    ("-i 0", ["-i", "--stepbytes", "0", SIZE]),
    ("-i -4K", ["-i", "--stepbytes", "-4K", SIZE]),
    ("-b 1 -e 64G -i 1", ["-i 1", "--stepbytes", "10000000 sizes", "raise -i"]),
    ("-f 0", ["-f", "--stepfactor", "0", "from 1 to"]),
    ("-f -2", ["-f", "--stepfactor", "-2", "from 1 to"]),
    ("-f 1.5", ["-f", "--stepfactor", "1.5", "whole number"]),
    ("-f 2x", ["-f", "--stepfactor", "2x", "whole number"]),
    ("-f 010", ["-f", "--stepfactor", "010", "whole number"]),
    ("-f 99999999999", ["-f", "--stepfactor", "99999999999", "whole number"]),
    ("-i x -f 2", ["-i", "--stepbytes", "x", SIZE]),
    ("-u -1", ["-u", "--unalign", "-1", "from 0"]),
    ("-u 1M", ["-u", "--unalign", "1M", "whole number"]),
    # counts
    ("-n 0", ["-n", "--iters", "0", "from 1 to"]),
    ("-n 10k", ["-n", "--iters", "10k", "whole number"]),
    ("-n 1e3", ["-n", "--iters", "1e3", "whole number"]),
    ("-n -5", ["-n", "--iters", "-5", "from 1 to"]),
    ("-n 3000000000", ["-n", "--iters", "3000000000", "whole number"]),
    ("-w -1", ["-w", "--warmup_iters", "-1", "from 0 to"]),
    ("-w 5%", ["-w", "--warmup_iters", "5%", "whole number"]),
    ("-m 0", ["-m", "--agg_iters", "0", "from 1 to"]),
    ("-N -1", ["-N", "--run_cycles", "-1", "from 0 to"]),
    ("-c -1", ["-c", "--check", "-1", "from 0 to"]),
    ("-c yes", ["-c", "--check", "yes", "whole number"]),
    # ranks
    ("-t 0", ["-t", "--nthreads", "0", "1 to 1024"]),
    ("-t -2", ["-t", "--nthreads", "-2", "1 to 1024"]),
    ("-t 1025", ["-t", "--nthreads", "1025", "1 to 1024"]),
    ("-t two", ["-t", "--nthreads", "two", "1 to 1024"]),
    ("--processes 0", ["--processes", "0", "1 to 1024"]),
    ("--processes 512 -t 3", ["--processes 512", "-t 3", "1024"]),
    ("-g 0", ["-g", "--ngpus", "0", "from 1 to"]),
    ("-g 8", ["-g", "--ngpus", "8", "no GPUs", "-t 8", "--processes 8"]),
    # switches and choices
    ("-z 9", ["-z", "--blocking", "9", "0 to 3"]),
    ("-z -1", ["-z", "--blocking", "-1", "0 to 3"]),
    ("-a 4", ["-a", "--average", "4", "0 to 3"]),
    ("-a max", ["-a", "--average", "max", "0 to 3"]),
    ("-I 2", ["-I", "--per_iter_timing", "2", "0 to 1"]),
    ("-C 2", ["-C", "--report_cputime", "2", "0 to 1"]),
    ("-S on", ["-S", "--report_timestamps", "on", "0 to 1"]),
    ("-p 2", ["-p", "--parallel_init", "2", "0 to 1"]),
    ("-K 5", ["-K", "--per_iter_skip", "5", "-I 1"]),
    ("-I 0 -K 5", ["-K", "--per_iter_skip", "5", "-I 1"]),
    ("-I 1 -K 20", ["-K", "--per_iter_skip", "20", "0 to 19", "-n 20"]),
    ("-I 1 -n 5 -K 5", ["-K", "--per_iter_skip", "5", "0 to 4", "-n 5"]),
    ("-I 1 -K -1", ["-K", "--per_iter_skip", "-1", "from 0 to"]),
    ("-T -1", ["-T", "--timeout", "-1", "from 0 to"]),
    ("-T 1.5", ["-T", "--timeout", "1.5", "whole number"]),
    ("--placement middle", ["--placement", "middle", "in, out or both"]),
    ("--target-ci 0", ["--target-ci", "0", "between 0 and 100%"]),
    ("--target-ci 100%", ["--target-ci", "100%", "between 0 and 100%"]),
    ("--target-ci tight", ["--target-ci", "tight", "between 0 and 100%"]),
    ("--max-time 0", ["--max-time", "0", "above 0"]),
    ("--max-time 5h", ["--max-time", "5h", "60s"]),
    ("--ping-pong 1", ["--ping-pong", "1", "sendrecv_perf"]),
    ("--backend gpu", ["--backend", "gpu", "host, nccl or auto"]),
    # what only a GPU can honour
    ("-G 1", ["-G", "--cudagraph", "1", NOT_ON_HOST]),
    ("-I 1 -G 1", ["-G", "1"]),
    ("-z 3 -G 1", ["-G", "1"]),
    ("-G -1", ["-G", "--cudagraph", "-1", "from 0 to"]),
    ("-R 1", ["-R", "--local_register", "1", NOT_ON_HOST]),
    ("-R 2", ["-R", "--local_register", "2", NOT_ON_HOST]),
    ("-R 3", ["-R", "--local_register", "3", "0 to 2"]),
    ("-x 0", ["-x", "--cta_policy", "0", NOT_ON_HOST]),
    ("-y 1", ["-y", "--stream_null", "1", NOT_ON_HOST]),
    ("-y 2", ["-y", "--stream_null", "2", "0 to 1"]),
    ("-D 1", ["-D", "--device_implementation", "1", NOT_ON_HOST]),
    ("-V 16", ["-V", "--device_cta_count", "16", NOT_ON_HOST]),
    ("-M 1", ["-M", "--memory", "1", NOT_ON_HOST]),
    ("-M 2", ["-M", "--memory", "2", "0 to 1"]),
    # outputs
    ("-J out.txt", ["-J", "--output_file", "out.txt", ".json"]),
    ("-J no/such/folder/out.json", ["-J", "no/such/folder/out.json", "folder"]),
    ("--records no/such/folder/out.jsonl", ["--records", "no/such/folder/out.jsonl", "folder"]),
    ("-J /proc/out.json", ["-J", "/proc/out.json", "write permission"]),
    ("--records /dev/null/out.jsonl", ["--records", "/dev/null/out.jsonl", "write permission"]),
    ("-J both.json --records both.json", ["-J", "--records", "both.json", "the same file"]),
    ("--records .", ["--records", "."]),
    # faults
    ("--fault lunch", ["--fault", "lunch", "use delay:rank=R,us=N"]),
    ("--fault flip:rank=1", ["--fault", "flip:rank=1", "index", "use delay:rank=R,us=N"]),
    ("--fault flip:rank=1,index=1,bit=64", ["--fault", "bit=64", "0 to 63"]),
    ("--fault die:rank=1,phase=lunch", ["--fault", "lunch", "rendezvous"]),
    ("--fault overrun:rank=2", ["--fault", "rank=2", "0 to 1"]),
]

# --sizes stands in for -b and -e.
REFUSED_SIZES: list[tuple[str, list[str]]] = [
    ("--sizes 1K,1Q", ["--sizes", "1K,1Q", "list of sizes"]),
    ("--sizes 1K,,2K", ["--sizes", "1K,,2K", "list of sizes"]),
    ("--sizes 1K,", ["--sizes", "1K,", "list of sizes"]),
    ("--sizes 0", ["--sizes", "0", "at least 1 byte"]),
    ("--sizes 1K,-8", ["--sizes", "1K,-8", "list of sizes"]),
    ("--sizes 1K;2K", ["--sizes", "1K;2K", "list of sizes"]),
    ("--sizes 1K -b 8", ["--sizes", "1K", "-b", "8"]),
    ("--sizes 1K -e 8K", ["--sizes", "1K", "-e", "8K"]),
    ("--sizes 1K -f 2", ["--sizes", "1K", "-f", "2"]),
    ("--sizes 1K -i 8", ["--sizes", "1K", "-i", "8"]),
]

REFUSED_EMPTY = ["-b", "-e", "-i", "-f", "-n", "-t", "-g", "-d", "-o", "-r", "-z", "-a", "-I", "-T", "-J"]
REFUSED_EMPTY += ["--sizes", "--records", "--placement", "--target-ci", "--max-time", "--backend", "--processes"]
REFUSED_EMPTY += ["--fault"]


def expect_refused(
    finished: Finished, folder: Path, pieces: list[str], program: str = "all_reduce", files: tuple[str, ...] = ()
) -> None:
    assert finished.code == 2, finished
    assert finished.stdout == ""
    sentence = finished.sentence()
    assert sentence.startswith(f"{program}_perf: ")
    assert f"_perf: {program}_perf" not in sentence
    for piece in pieces:
        assert piece in sentence
    for noise in ("Traceback", "terminate", "std::", "what()"):
        assert noise not in sentence
    assert {entry.name for entry in folder.iterdir()} == set(files)


@pytest.mark.parametrize(("line", "pieces"), REFUSED, ids=[line for line, _ in REFUSED])
def test_refused(programs: Programs, line: str, pieces: list[str]) -> None:
    base = ["-t", "2", "-b", "8", "-e", "8", "-J", "out.json", "--records", "out.jsonl"]
    expect_refused(programs.run("all_reduce", *base, *line.split(" ")), programs.folder, pieces)


@pytest.mark.parametrize(("line", "pieces"), REFUSED_SIZES, ids=[line for line, _ in REFUSED_SIZES])
def test_refused_lists_of_sizes(programs: Programs, line: str, pieces: list[str]) -> None:
    base = ["-t", "2", "-J", "out.json", "--records", "out.jsonl"]
    expect_refused(programs.run("all_reduce", *base, *line.split(" ")), programs.folder, pieces)


@pytest.mark.parametrize("flag", REFUSED_EMPTY)
def test_refused_without_a_value(programs: Programs, flag: str) -> None:
    """The call of a script with an empty variable."""
    expect_refused(programs.run("all_reduce", "-t", "2", flag, ""), programs.folder, [flag])


@pytest.mark.parametrize(
    ("collective", "environment", "arguments", "pieces"),
    [
        ("all_reduce", {"NCCL_TESTS_SPLIT": "EVERY 2"}, [], ["NCCL_TESTS_SPLIT=EVERY 2", "AND, OR, MOD or DIV"]),
        ("all_reduce", {"NCCL_TESTS_SPLIT": "MOD 0"}, [], ["NCCL_TESTS_SPLIT=MOD 0"]),
        ("all_reduce", {"NCCL_TESTS_SPLIT": "DIV"}, [], ["NCCL_TESTS_SPLIT=DIV"]),
        ("all_reduce", {"NCCL_TESTS_SPLIT": " "}, [], ["NCCL_TESTS_SPLIT= "]),
        ("all_reduce", {"NCCL_TESTS_SPLIT_MASK": "0xZ"}, [], ["NCCL_TESTS_SPLIT_MASK=0xZ", "hexadecimal"]),
        ("all_reduce", {"NCCL_TESTS_DEVICE": "0"}, [], ["NCCL_TESTS_DEVICE=0", "unset"]),
        ("all_reduce", {"NCCL_TESTS_MIN_BW": "fast"}, [], ["NCCL_TESTS_MIN_BW=fast", "GB/s"]),
        ("all_reduce", {"NCCL_TESTS_MIN_BW": "-1"}, [], ["NCCL_TESTS_MIN_BW=-1", "at least 0"]),
        ("alltoallv", {"NCCL_TESTS_ALLTOALLV_SPREAD": "1.5"}, [], ["NCCL_TESTS_ALLTOALLV_SPREAD=1.5", "0 to 1"]),
        ("alltoallv", {"NCCL_TESTS_ALLTOALLV_SPREAD": "-1"}, [], ["NCCL_TESTS_ALLTOALLV_SPREAD=-1", "0 to 1"]),
        ("alltoallv", {"NCCL_TESTS_ALLTOALLV_SPREAD": "wide"}, [], ["NCCL_TESTS_ALLTOALLV_SPREAD=wide", "0 to 1"]),
        ("alltoallv", {"NCCL_TESTS_ALLTOALLV_MATRIX_SCALE": "-2"}, [], ["_MATRIX_SCALE=-2", "at least 0"]),
        ("alltoallv", {"NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY": "yes"}, [], ["_PRINT_SUMMARY=yes", "0 or 1"]),
        ("alltoallv", {"NCCL_TESTS_ALLTOALLV_MATRIX_FILE": "none.txt"}, [], ["_MATRIX_FILE=none.txt", "no such file"]),
        ("hypercube", {}, ["-t", "3"], ["3", "power of 2", "-t", "--processes"]),
        ("hypercube", {"NCCL_TESTS_SPLIT": "DIV 3"}, ["--processes", "4", "-t", "1"], ["3", "power of 2"]),
        (
            "sendrecv",
            {"NCCL_TESTS_SPLIT": "DIV 3"},
            ["--processes", "6", "-t", "1", "--ping-pong", "1"],
            ["even number of ranks, got 3", "change the groups (NCCL_TESTS_SPLIT,"],
        ),
        ("gather", {"NCCL_TESTS_SPLIT": "MOD 2"}, ["--processes", "3", "-r", "2"], ["-r 2", "0 to 1"]),
        ("sendrecv", {}, ["-t", "1", "--ping-pong", "1"], ["--ping-pong", "even number"]),
    ],
)
def test_refused_elsewhere(
    programs: Programs, collective: str, environment: dict[str, str], arguments: list[str], pieces: list[str]
) -> None:
    base = ["-t", "2", "-b", "8", "-e", "8", "-J", "out.json", "--records", "out.jsonl"]
    finished = programs.run(collective, *base, *arguments, environment=environment)
    expect_refused(finished, programs.folder, pieces, collective)


@pytest.mark.parametrize(
    ("matrix", "arguments", "pieces"),
    [
        ("1 2\n3 4\n", ["-b", "8", "-e", "16"], ["-b 8", "-e 16", "same value"]),
        ("1 2\n3\n", [], ["row 2 has 1 column"]),
        ("1 2 3\n4 5 6\n", [], ["2 rows and 3 columns"]),
        ("", [], ["no numbers"]),
        ("1 two\n3 4\n", [], ["row 1 column 2", "two"]),
        ("1 -2\n3 4\n", [], ["row 1 column 2", "negative"]),
        ("1 inf\n3 4\n", [], ["row 1 column 2", "not a number"]),
        ("1 1e30\n3 4\n", [], ["row 1 column 2", "too large"]),
        ("1\n", [], ["for 1 ranks", "2"]),
        ("1000 2000\n3000 4000\n", [], ["6992", "-e"]),
    ],
)
def test_refused_matrix(programs: Programs, matrix: str, arguments: list[str], pieces: list[str]) -> None:
    (programs.folder / "matrix.txt").write_text(matrix)
    base = ["-t", "2", "-b", "64", "-e", "64", "-J", "out.json", "--records", "out.jsonl"]
    environment = {"NCCL_TESTS_ALLTOALLV_MATRIX_FILE": "matrix.txt"}
    finished = programs.run("alltoallv", *base, *arguments, environment=environment)
    assert "NCCL_TESTS_ALLTOALLV_MATRIX_FILE" in finished.sentence()
    expect_refused(finished, programs.folder, pieces, "alltoallv", files=("matrix.txt",))


@pytest.mark.parametrize("words", [["al_reduce"], ["all_reduce_perf"], []])
def test_the_engine_refuses_an_unknown_collective(programs: Programs, words: list[str]) -> None:
    finished = programs.run("busbw-engine", *words)
    assert (finished.code, finished.stdout) == (2, "")
    for name in [*words, "all_reduce", "hypercube"]:
        assert name in finished.sentence()


def test_an_existing_record_is_never_touched(programs: Programs) -> None:
    existing = programs.folder / "out.jsonl"
    existing.write_text("precious\n")
    finished = programs.run("all_reduce", "-t", "2", "-b", "8", "-e", "8", "-J", "out.json", "--records", "out.jsonl")
    expect_refused(finished, programs.folder, ["--records", "out.jsonl", "exists"], files=("out.jsonl",))
    assert existing.read_text() == "precious\n"


# ---- what runs ------------------------------------------------------------------------------------------------------

# Command lines as nccl-tests documents them, and the sizes that it would run.
ACCEPTED: list[tuple[str, list[int]]] = [
    ("-b8 -e32 -f2", [8, 16, 32]),
    ("-b 8 -e 32 -f 2 -g 1", [8, 16, 32]),
    ("--minbytes 8 --maxbytes 32 --stepfactor 2", [8, 16, 32]),
    ("--minbytes=8 --maxbytes=32 --stepfactor=2", [8, 16, 32]),
    ("-b 0.5K -e 1k -f 2", [512, 1024]),
    ("-b .5K -e .5K", [512]),
    ("-b 1e3 -e 1e3", [1000]),
    ("-b 1e3K -e 1e3K", [1024000]),
    ("-b 0.001953125M -e 2048", [2048]),
    ("-b 0.5m -e 0.5M", [524288]),
    ("-b 1K -e 2K -i 512", [1024, 1536, 2048]),
    ("-b 1K -e 2000 -i 0.5K", [1024, 1536]),
    ("-b 8 -e 100 -f 3", [8, 24, 72]),
    ("-b 8 -e 8 -f 2", [8]),
    ("-b 8 -e 2M", [8, 1048584]),
    ("-b 8 -e 64 -b 16 -e 32 -f 4 -f 2", [16, 32]),
    ("-b 8 -e 16 -f 0x2", [8, 16]),
    ("-b 8 -e 32 -i 1K -f 2", [8, 16, 32]),
    ("--stepfactor 2 --stepbytes 1M -b 8 -e 32", [8, 16, 32]),
    ("-b 6 -e 6", [4]),
    ("-b 3 -e 3", [0]),
    ("-b 8 -e 8 -G 0 -R 0 -y 0 -D 0 -M 0 -I 0 -K 0 -C 0 -S 0 -T 0 -N 1 -u 0 -w 0 -m 1 -c 0 -a 1 -z 0 -p 0", [8]),
    ("-b 8 -e 8 --cudagraph 0 --local_register 0 --stream_null 0 --device_implementation 0 --memory 0", [8]),
    ("-b 8 -e 8 --per_iter_timing 0 --per_iter_skip 0 --report_cputime 0 --report_timestamps 0 --timeout 60", [8]),
    ("-b 8 -e 8 --run_cycles 1 --unalign 0 --warmup_iters 0 --agg_iters 1 --check 1 --average 1 --blocking 0", [8]),
    ("-b 8 -e 8 --parallel_init 1 --nthreads 2 --ngpus 1 --op sum --datatype float --root 0 --iters 20", [8]),
]


@pytest.mark.parametrize(("line", "sizes"), ACCEPTED, ids=[line for line, _ in ACCEPTED])
def test_accepted(programs: Programs, line: str, sizes: list[int]) -> None:
    finished = programs.run("all_reduce", "-n", "2", "-t", "2", *line.split())
    assert (finished.code, finished.stderr) == (0, "")
    assert [int(row[0]) for row in rows_by_blanks(finished.stdout)] == sizes


def test_factor_one_falls_back_to_the_fixed_step(programs: Programs) -> None:
    finished = programs.run("all_reduce", "-t", "2", "-n", "2", "-b", "1M", "-e", "3M", "-f", "1")
    assert (finished.code, finished.stderr) == (0, "")
    assert [row.size_bytes for row in rows_by_pattern(finished.stdout)] == [1 << 20, 2 << 20, 3 << 20]
    assert " step: 1048576(bytes) " in finished.stdout
    notes = [line for line in finished.stdout.splitlines() if line.startswith("# -f 1")]
    assert len(notes) == 1
    assert "1048576" in notes[0]


def test_a_step_beside_a_factor_is_not_used(programs: Programs) -> None:
    """Scripts that always give both run with nccl-tests, too."""
    finished = programs.run("all_reduce", "-t", "2", "-n", "2", "-b", "8", "-e", "32", "-i", "1M", "-f", "2")
    assert (finished.code, finished.stderr) == (0, "")
    assert " step: 2(factor) " in finished.stdout
    assert "# -i 1M is not used: -f 2\n" in finished.stdout


def test_empty_variables_are_not_set(programs: Programs) -> None:
    names = ("SPLIT", "SPLIT_MASK", "MIN_BW", "DEVICE", "ALLTOALLV_SPREAD", "ALLTOALLV_MATRIX_FILE")
    environment = {f"NCCL_TESTS_{name}": "" for name in names}
    finished = programs.run("alltoallv", "-t", "2", "-b", "1K", "-e", "1K", environment=environment)
    assert (finished.code, finished.stderr) == (0, "")
    assert "# Group" not in finished.stdout


def test_no_check_shows_nothing_as_wrong(programs: Programs) -> None:
    finished = programs.run("all_reduce", "-t", "2", "-b", "8", "-e", "8", "-c", "0", "--records", "out.jsonl")
    (row,) = rows_by_pattern(finished.stdout)
    assert (finished.code, row.out_of_place.wrong, row.in_place.wrong) == (0, None, None)
    checks = [line["check"] for line in of_kind(read_records(programs.folder / "out.jsonl"), "row")]
    assert [(check["state"], check["wrong_elements"]) for check in checks] == [("not_checked", None)] * 2


def test_nothing_given_at_all(programs: Programs) -> None:
    """32 MiB on one rank, as nccl-tests runs it."""
    finished = programs.run("all_reduce")
    assert (finished.code, finished.stderr) == (0, "")
    assert [row.size_bytes for row in rows_by_pattern(finished.stdout)] == [32 << 20]


def test_no_gpu_is_an_error_of_the_environment(programs: Programs) -> None:
    finished = programs.run("all_reduce", "--backend", "nccl", "-J", "out.json", "--records", "out.jsonl")
    assert finished.code == 3
    assert "--backend nccl: " in finished.sentence()
    assert "--backend host" in finished.sentence()
    assert list(programs.folder.iterdir()) == []


def test_listing_devices_where_there_are_none_is_no_error(programs: Programs) -> None:
    finished = programs.run("busbw-engine", "--list-devices")
    assert (finished.code, finished.stdout) == (0, "")
    assert "no GPU: " in finished.stderr
