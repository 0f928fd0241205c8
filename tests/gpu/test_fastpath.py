"""Tests of the fast path: correct results with every program, and no hangs beyond those of NCCL.

docs/explanation/fast-path.md describes it.

The library is searched in the folder of the programs and in the package. BUSBW_FASTPATH_LIBRARY names another one.
Programs that no wheel contains are searched in the folder of the programs too: fastpath_stress and fastpath_lines
(built with BUSBW_BUILD_GPU_TESTS) and fastpath_kernels (built with BUSBW_BUILD_BENCH). BUSBW_NCCL_TESTS names a folder
of nccl-tests.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from busbw import engine
from busbw.collectives import collectives

from .fast_path import CASES, COLLECTIVES, PROGRAM_LIMIT_S, TWO_SHOT, FastPath
from .machine import Machine, built_file

REACHING = ("all_reduce", "all_gather", "reduce_scatter")
"""Collectives that `direct` supports."""
SIZES = ["--sizes", "2,30,120,1000,4K,65534,100003,1M,5000003", "-n", 3]
EVERYTHING = ["-d", "all", "-o", "all", "--sizes", "8,1000,100003,1M", "-n", 1]
FORCED = ["exchange,128,512", "exchange,1,32", "exchange,7,96", "two_shot,128,256", "two_shot,3,64"]
SANITIZER_LIMIT_S = 90


@pytest.fixture
def fast(several: Machine, gpus: Machine) -> FastPath:
    named = os.environ.get("BUSBW_FASTPATH_LIBRARY")
    places = [
        *([Path(named)] if named else []),
        several.programs / engine.FASTPATH_LIBRARY,
        Path(engine.__file__).parent / "lib" / engine.FASTPATH_LIBRARY,
    ]
    found = next((place for place in places if place.exists()), None)
    if found is None:
        pytest.skip("the fast path is not built here: BUSBW_FASTPATH_LIBRARY names the library")
    return FastPath(several, found.resolve())


@pytest.mark.parametrize("way", ["g", "t", "processes"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_sizes(fast: FastPath, collective: str, way: str) -> None:
    methods = fast.check(collective, *fast.machine.ranks(way), *SIZES, "-d", "half")
    assert methods["exchange"] > 0, methods


@pytest.mark.parametrize("collective", collectives())
def test_every_type_and_operator(fast: FastPath, collective: str) -> None:
    """Also programs that the fast path delegates to NCCL are correct."""
    methods = fast.check(collective, *fast.machine.ranks("t"), *EVERYTHING)
    assert (methods["exchange"] > 0) == (collective in COLLECTIVES), methods


@pytest.mark.parametrize("way", ["t", "processes"])
@pytest.mark.parametrize("forced", FORCED)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_method_for_every_size(fast: FastPath, collective: str, forced: str, way: str) -> None:
    method = forced.partition(",")[0]
    if method == "two_shot" and collective not in TWO_SHOT:
        pytest.skip("there is no such method")
    sizes = ["--sizes", "2,1000,65534,1M,16000002", "-n", 2, "-d", "bfloat16"]
    methods = fast.check(collective, *fast.machine.ranks(way), *sizes, BUSBW_FASTPATH_METHOD=forced)
    assert methods[method] > 0
    # Calls of two bytes are delegated to NCCL, because a rank's part is empty.
    assert set(methods) <= {method, "nccl"}, methods


@pytest.mark.parametrize("way", ["g", "t", "processes"])
@pytest.mark.parametrize("collective", REACHING)
def test_direct_in_windows(fast: FastPath, collective: str, way: str) -> None:
    """No odd sizes: they are delegated to NCCL, and the window kernels of 2.28.9 give wrong data for some of them."""
    sizes = ["--sizes", "128,1000,4K,65536,1M,16M,64M", "-n", 3, "-d", "half"]
    everything = ["--sizes", "128,1K,100000,1M", "-d", "all", "-o", "all", "-n", 1]
    for flags in (sizes, [*sizes, "-G", 2], everything):
        forced = {"BUSBW_FASTPATH_METHOD": "direct,64,512"}
        methods = fast.check(collective, *fast.machine.ranks(way), *flags, "-R", 2, **forced)
        assert methods["direct"] > 0, methods


@pytest.mark.parametrize("collective", REACHING)
def test_direct_takes_windows(fast: FastPath, collective: str) -> None:
    methods = fast.check(collective, *fast.machine.ranks("t"), *SIZES, BUSBW_FASTPATH_METHOD="direct,64,512")
    assert methods["direct"] == 0, methods


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_unaligned(fast: FastPath, collective: str) -> None:
    methods = fast.check(collective, *fast.machine.ranks("t"), *SIZES, "-d", "half", "-u", 3)
    assert methods["exchange"] > 0, methods


@pytest.mark.parametrize("way", ["g", "t", "processes"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_graphs(fast: FastPath, collective: str, way: str) -> None:
    methods = fast.check(collective, *fast.machine.ranks(way), *SIZES, "-d", "half", "-G", 3)
    assert methods["exchange"] > 0, methods


@pytest.mark.parametrize(("registered", "graphs", "mode"), [(1, 0, "on"), (2, 0, "on"), (2, 3, "on"), (2, 0, "verify")])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_registered_buffers(fast: FastPath, collective: str, registered: int, graphs: int, mode: str) -> None:
    """ncclCommRegister (-R 1) and symmetric windows (-R 2) also work for buffers of other processes."""
    flags = ["-d", "half", "-R", registered, *(["-G", graphs] if graphs else [])]
    methods = fast.check(collective, *fast.machine.ranks("processes"), *SIZES, *flags, BUSBW_FASTPATH=mode)
    assert set(methods) - {"nccl"}, methods


@pytest.mark.parametrize("way", ["g", "t"])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_symmetric_windows_of_one_process(fast: FastPath, collective: str, way: str) -> None:
    methods = fast.check(collective, *fast.machine.ranks(way), *SIZES, "-d", "float", "-R", 2)
    assert set(methods) - {"nccl"}, methods


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_verify_finds_nothing(fast: FastPath, collective: str) -> None:
    """expect_nothing_wrong() requires an empty stderr, and findings would be printed there."""
    methods = fast.check(collective, *fast.machine.ranks("t"), *SIZES, "-d", "half", BUSBW_FASTPATH="verify")
    assert methods["exchange"] > 0, methods


@pytest.mark.parametrize("busy_blocks", [0, 256])
def test_no_line_is_read_in_parts(gpus: Machine, busy_blocks: int) -> None:
    """Tests the fast path's assumption about lines billions of times. One GPU is enough."""
    words = [str(built_file(gpus, "fastpath_lines")), "4000000", str(busy_blocks)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=PROGRAM_LIMIT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(": 0 cells that were not what the tag says\n")


def test_off_hands_everything_over(fast: FastPath) -> None:
    assert not fast.check("all_reduce", *fast.machine.ranks("t"), *SIZES, BUSBW_FASTPATH="off")


@pytest.mark.parametrize("mode", ["threads", "single", "processes"])
def test_a_mix(fast: FastPath, mode: str) -> None:
    stress = built_file(fast.machine, "fastpath_stress")
    done = fast.start([stress, "--gpus", fast.machine.count, "--mode", mode, "--seconds", 8])
    assert done.returncode == 0, done
    assert "wrong 0" in done.stdout
    assert {"exchange", "two_shot", "nccl"} <= set(fast.methods())


@pytest.mark.parametrize(("verify", "forced"), [("on", ""), ("on", "direct,64,512"), ("verify", "direct,3,96")])
@pytest.mark.parametrize("mode", ["threads", "single", "processes"])
def test_a_mix_in_symmetric_windows(fast: FastPath, mode: str, verify: str, forced: str) -> None:
    """Buffers for which NCCL has kernels are in windows of three communicators."""
    stress = built_file(fast.machine, "fastpath_stress")
    mix = [stress, "--gpus", fast.machine.count, "--mode", mode, "--windows", "yes", "--seconds", 8, "--seed", 50]
    done = fast.start(mix, BUSBW_FASTPATH=verify, BUSBW_FASTPATH_METHOD=forced)
    assert done.returncode == 0, done
    assert "wrong 0" in done.stdout
    if forced:
        assert fast.methods()["direct"] > 0


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("mode", ["threads", "single", "processes"])
def test_a_long_mix(fast: FastPath, mode: str, seed: int) -> None:
    """Twenty minutes in all."""
    stress = built_file(fast.machine, "fastpath_stress")
    done = fast.start([stress, "--gpus", fast.machine.count, "--mode", mode, "--seconds", 34, "--seed", 100 + seed])
    assert done.returncode == 0, done


def test_a_planted_byte_is_found_in_a_mix(fast: FastPath) -> None:
    stress = built_file(fast.machine, "fastpath_stress")
    done = fast.start([stress, "--gpus", fast.machine.count, "--seconds", 3, "--plant", 2])
    assert done.returncode == 1, done
    assert "WRONG: " in done.stdout


@pytest.mark.parametrize("mode", ["threads", "processes"])
@pytest.mark.parametrize("name", CASES)
def test_a_case(fast: FastPath, name: str, mode: str) -> None:
    stress = built_file(fast.machine, "fastpath_stress")
    case = [stress, "--gpus", fast.machine.count, "--case", name, "--mode", mode, "--rounds", 4]
    fast.expect_right(name, fast.start(case))


@pytest.mark.parametrize("mode", ["threads", "processes"])
@pytest.mark.parametrize("name", ["finalize", "calls_beside_graphs"])
def test_nccl_itself_does_what_a_case_asks(fast: FastPath, name: str, mode: str) -> None:
    """NCCL itself guarantees this order and this wait, so programs may rely on them."""
    stress = built_file(fast.machine, "fastpath_stress")
    case = [stress, "--gpus", fast.machine.count, "--case", name, "--mode", mode, "--rounds", 3]
    done = fast.start(case, BUSBW_FASTPATH="off")
    assert done.returncode == 0, done


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_ranks_that_see_only_their_own_gpu(fast: FastPath, collective: str) -> None:
    """As with Slurm's --gpus-per-task, each process has its own CUDA_VISIBLE_DEVICES."""
    count, shown = fast.machine.count, os.environ.get("CUDA_VISIBLE_DEVICES")
    gpus = shown.split(",") if shown else [str(gpu) for gpu in range(count)]
    methods = fast.check_processes(collective, [{"CUDA_VISIBLE_DEVICES": gpu} for gpu in gpus[:count]], *SIZES)
    assert methods["exchange"] > 0


@pytest.mark.parametrize("communicators", [2, 3])
@pytest.mark.parametrize("forced", ["exchange,128,512", "two_shot,128,256"])
def test_crossed_at_full_width(fast: FastPath, forced: str, communicators: int) -> None:
    stress = built_file(fast.machine, "fastpath_stress")
    crossed = [stress, "--gpus", fast.machine.count, "--case", "crossed", "--communicators", communicators]
    done = fast.start(crossed, BUSBW_FASTPATH_METHOD=forced, BUSBW_FASTPATH_MIB="256")  # slots for all
    assert done.returncode == 0, done


@pytest.mark.alone  # memory of other tests would be counted
@pytest.mark.parametrize("name", ["memory", "many"])
def test_memory(fast: FastPath, name: str) -> None:
    stress = built_file(fast.machine, "fastpath_stress")
    done = fast.start([stress, "--gpus", fast.machine.count, "--case", name, "--rounds", 6])
    assert done.returncode == 0, done


def test_verify_finds_a_wrong_result(fast: FastPath) -> None:
    """The wrong result is caused by the program: its buffers overlap."""
    stress = built_file(fast.machine, "fastpath_stress")
    overlapping = [stress, "--gpus", fast.machine.count, "--case", "verify_finds"]
    found = fast.start(overlapping, BUSBW_FASTPATH="verify", BUSBW_FASTPATH_METHOD="exchange,1,32")
    assert found.returncode == 0, found
    not_found = fast.start(overlapping, BUSBW_FASTPATH_METHOD="exchange,1,32")
    assert not_found.returncode == 1, not_found


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_nccl_tests(fast: FastPath, collective: str) -> None:
    folder = os.environ.get("BUSBW_NCCL_TESTS")
    if not folder:
        pytest.skip("BUSBW_NCCL_TESTS names a folder of nccl-tests")
    sizes = ["-g", fast.machine.count, "-b", 8, "-e", "16M", "-f", 2, "-n", 5, "-d", "half"]
    done = fast.start([Path(folder).resolve() / f"{collective}_perf", *sizes])
    assert done.returncode == 0, done
    assert "# Out of bounds values : 0 OK" in done.stdout
    assert fast.methods()["exchange"] > 0


TRAINING = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.cuda.set_device(rank)
torch.manual_seed(0)
layers = [torch.nn.Linear(256, 256) for _ in range(4)]
alone = torch.nn.Sequential(*layers).cuda().double()
shared = torch.nn.parallel.DistributedDataParallel(
    torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)]).cuda(), device_ids=[rank], bucket_cap_mb=0.3)
shared.module.load_state_dict({name: value.float() for name, value in alone.state_dict().items()})
optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in (alone, shared)]
for step in range(20):
    torch.manual_seed(step)
    batch = torch.randn(8 * ranks, 256)
    for model, optimizer, part in zip((alone, shared), optimizers, (batch.double(), batch[8 * rank : 8 * rank + 8])):
        optimizer.zero_grad()
        model(part.cuda()).square().mean().backward()
        optimizer.step()
mine = torch.cat([value.flatten() for value in shared.parameters()]).detach()
all_of_them = [torch.empty_like(mine) for _ in range(ranks)]
dist.all_gather(all_of_them, mine)
assert all(torch.equal(one, mine) for one in all_of_them), "ranks differ"
whole = torch.cat([value.flatten() for value in alone.parameters()]).detach()
worst = (mine.double() - whole).abs().max().item()
assert worst < 1e-5, f"one rank with all data comes to other weights: {worst}"
print(f"rank {rank}: trained, {worst:.1e}")
dist.destroy_process_group()
"""


def pytorch() -> str:
    """Returns the Python on the path if it has PyTorch. It may differ from this Python."""
    python = shutil.which("python3")
    if python is None or subprocess.run([python, "-c", "import torch"], capture_output=True).returncode != 0:
        pytest.skip("this takes a python3 that has PyTorch")
    return python


def test_training_with_pytorch(fast: FastPath) -> None:
    """Weights are equal on all ranks, and equal to those of a single rank with all the data."""
    torchrun = [pytorch(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", fast.machine.count]
    script = fast.machine.folder / "train.py"
    script.write_text(TRAINING)
    done = fast.start([*torchrun, script])
    assert done.returncode == 0, done
    assert done.stdout.count(": trained") == fast.machine.count, done
    assert fast.methods()["exchange"] > 0


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck"])
@pytest.mark.parametrize(
    ("collective", "method"),
    [
        *[(collective, "exchange") for collective in COLLECTIVES],
        *[(collective, "two_shot") for collective in TWO_SHOT],
        *[(collective, "direct") for collective in REACHING],
    ],
)
def test_sanitizer(fast: FastPath, collective: str, method: str, tool: str) -> None:
    kernels = built_file(fast.machine, "fastpath_kernels")
    sanitizer = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if sanitizer is None:
        pytest.skip("this takes compute-sanitizer")
    shape = [30720, 4, 64, fast.machine.count, 3]  # each rank's part is a multiple of 16 bytes, as direct requires
    command = [sanitizer, "--tool", tool, "--error-exitcode", 9, kernels, collective, method, *shape]
    done = fast.start(command, limit_s=SANITIZER_LIMIT_S)
    assert done.returncode == 0, done
    assert "0 errors" in done.stdout
