"""Traces of shipped models against published totals, closed formulas and the counts of a recorded job."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from busbw.cli.main import main
from busbw.errors import UsageError
from busbw.traces.format import DATATYPE_BYTES, DATATYPE_NAMES, Flag, Function, Operations
from busbw.traces.model import Trace
from busbw.traces.models import STEPS, list_models, load_model

MODELS = {model.name: model for model in list_models()}
NAMES = sorted(MODELS)
SIZES = [
    ("llama-7b-fsdp", 8),
    ("llama-7b-fsdp", 3),
    ("llama-70b-tp8", 8),
    ("llama-70b-tp8", 16),
    ("llama-70b-tp8", 2),
] + [("mixtral-8x7b-ep8", ranks) for ranks in (2, 8, 16)]


def one_step(trace: Trace, rank: int = 0, step: int = 0) -> Operations:
    operations = trace.ranks[rank].operations
    if trace.name != "mixtral-8x7b-ep8":
        assert len(operations) % STEPS == 0
        equal: Operations = np.split(operations, STEPS)[step]
        return equal
    ends = np.flatnonzero(operations["function"] == Function.ALL_REDUCE) + 1  # one all-reduce ends a step
    unequal: Operations = np.split(operations, ends)[step]
    return unequal


def called(operations: Operations) -> Counter[tuple[str, str, int]]:
    """Returns the number of calls of each function, type and count."""
    return Counter(
        (Function(row["function"]).name, DATATYPE_NAMES[row["datatype"]], int(row["count"])) for row in operations
    )


def of_communicator(trace: Trace, operations: Operations, name: str, function: Function) -> Operations:
    indices = [index for index, one in enumerate(trace.communicators) if one.name == name]
    selected: Operations = operations[
        np.isin(operations["communicator"], indices) & (operations["function"] == function)
    ]
    return selected


@pytest.mark.parametrize("name", NAMES)
def test_the_numbers_of_a_shape_give_the_published_total(name: str) -> None:
    model = MODELS[name]
    assert model.layers * model.block_parameters + model.root_parameters == model.parameters


def test_a_fully_sharded_70b_calls_what_a_recorded_job_called() -> None:
    """Counts per rank and two steps of the llama_70b_fsdp trace of AMD-AGI/TraceLens on 8 GPUs."""
    shape = msgspec.structs.replace(MODELS["llama-70b-tp8"], parallelism="fsdp", group=1, scalar_all_reduces=3)
    trace = load_model(shape, 8)
    block, root = 855_654_400, 2_101_354_496
    assert called(trace.ranks[5].operations) == {
        ("ALL_GATHER", "bfloat16", block // 8): 318 * STEPS // 2,
        ("REDUCE_SCATTER", "float", block // 8): 160 * STEPS // 2,
        ("ALL_GATHER", "bfloat16", root // 8): 2 * STEPS // 2,
        ("REDUCE_SCATTER", "float", root // 8): 2 * STEPS // 2,
        ("ALL_REDUCE", "float", 1): 6 * STEPS // 2,
    }


@pytest.mark.parametrize(("ranks", "root", "block"), [(8, 32_768_512, 25_297_920), (512, 512_008, 395_280)])
def test_a_fully_sharded_7b_calls_the_operations_of_its_formula(ranks: int, root: int, block: int) -> None:
    assert called(one_step(load_model("llama-7b-fsdp", ranks), ranks - 1)) == {
        ("ALL_GATHER", "bfloat16", root): 1,
        ("ALL_GATHER", "bfloat16", block): 32 + 31,
        ("REDUCE_SCATTER", "float", block): 32,
        ("REDUCE_SCATTER", "float", root): 1,
        ("ALL_REDUCE", "float", 1): 3,
    }


def test_a_tensor_parallel_model_exchanges_its_tokens_ten_times_per_layer() -> None:
    trace = load_model("llama-70b-tp8")
    step = one_step(trace, 9)
    gathers = of_communicator(trace, step, "tensor parallel", Function.ALL_GATHER)
    reductions = of_communicator(trace, step, "tensor parallel", Function.REDUCE_SCATTER)
    assert set(gathers["count"]) == set(reductions["count"]) == {8192 * 8192 // 8}
    assert len(gathers) == 80 * (2 + 4) + 3  # and head, its saved input, gradient of the embedding
    assert len(reductions) == 80 * (2 + 2) + 2  # and embedding, gradient of the head
    norms = of_communicator(trace, step, "tensor parallel", Function.ALL_REDUCE)["count"]
    assert sorted(norms) == [8192] * 3 + [161 * 8192]


def test_the_distributed_optimizer_exchanges_each_parameter_once() -> None:
    trace = load_model("llama-70b-tp8")
    step = one_step(trace)
    stack = 8_557_690_880 + 2 * 128_256 * 8192 // 8 + 8192
    reduced = of_communicator(trace, step, "data parallel", Function.REDUCE_SCATTER)["count"] * 2
    gathered = of_communicator(trace, step, "data parallel", Function.ALL_GATHER)["count"] * 2
    assert list(gathered) == list(reduced[::-1])
    assert 0 <= reduced.sum() - stack < 128 * len(reduced)
    assert (reduced[:-1] >= 40_000_000).all()
    assert (reduced < 40_000_000 + 128_256 * 8192 // 8 + 128).all()  # the largest parameter can fill the bucket
    assert not [one for one in load_model("llama-70b-tp8", 8).communicators if one.name == "data parallel"]


@pytest.mark.parametrize(("ranks", "group"), [(8, 8), (16, 8), (2, 2)])
def test_experts_get_all_tokens_of_their_group(ranks: int, group: int) -> None:
    trace = load_model("mixtral-8x7b-ep8", ranks)
    tokens, messages = 4096 * 2, []
    for rank in range(ranks):
        step = one_step(trace, rank)
        sent = of_communicator(trace, step, "expert parallel", Function.SEND)
        groups = [sent[sent["group"] == number] for number in np.unique(sent["group"])]
        assert len(groups) == 32 * 6
        dispatched, probabilities = groups[0], groups[1]
        assert set(dispatched["datatype"]) == {DATATYPE_NAMES.index("bfloat16")}
        assert set(probabilities["datatype"]) == {DATATYPE_NAMES.index("float")}
        assert list(dispatched["count"]) == list(probabilities["count"] * 4096)
        assert len(dispatched) == group - 1
        messages.append(int(probabilities["count"].sum()))
    assert all(0 < message < tokens for message in messages)
    assert np.mean(messages) == pytest.approx(tokens * (group - 1) / group, rel=0.05)


def test_the_load_of_the_experts_is_uneven() -> None:
    trace = load_model("mixtral-8x7b-ep8")
    received = [of_communicator(trace, one_step(trace, rank), "expert parallel", Function.RECV) for rank in range(8)]
    load = np.array([[rows["count"][rows["group"] == 3 * layer + 1].sum() for layer in range(32)] for rows in received])
    ratios = load.max(axis=0) / load.mean(axis=0)
    assert 1.2 < ratios.mean() < 2.0
    first, second = one_step(trace, step=0), one_step(trace, step=1)
    assert len(first) == len(second)
    assert not np.array_equal(first["count"], second["count"])


def sequences(trace: Trace) -> Iterator[tuple[list[object], list[object]]]:
    """Yields pairs of sequences that must be equal, of two ranks of each communicator."""
    for index, communicator in enumerate(trace.communicators):
        rows = []
        for own, member in enumerate(communicator.members):
            assert member is not None
            rank = trace.ranks[member]
            assert rank.own_rank_by_communicator[index] == own
            operations = rank.operations
            rows.append(operations[operations["communicator"] == index])
        names = ["function", "datatype", "redop", "count", "flags"]
        pairs = [(Function.SEND, Function.RECV), (Function.RECV, Function.SEND)]
        collectives = [one[~np.isin(one["function"], pairs[0])][names].tolist() for one in rows]
        assert collectives[0] or any(len(one) for one in rows)
        yield from ((collectives[0], other) for other in collectives[1:])
        for own, one in enumerate(rows):
            for other in range(own):
                for sender, receiver in pairs:
                    sent = one[(one["function"] == sender) & (one["peer"] == other)]
                    received = rows[other][(rows[other]["function"] == receiver) & (rows[other]["peer"] == own)]
                    yield (
                        sent[["datatype", "count", "group"]].tolist(),
                        received[["datatype", "count", "group"]].tolist(),
                    )


@pytest.mark.parametrize(("name", "ranks"), SIZES)
def test_all_ranks_call_the_same(name: str, ranks: int) -> None:
    trace = load_model(name, ranks)
    assert trace.size == len(trace.ranks) == ranks
    assert sum(1 for one, other in sequences(trace) if one != other) == 0
    for rank in trace.ranks:
        assert set(rank.operations["communicator"]) == set(rank.own_rank_by_communicator)
        assert (np.diff(rank.operations["enqueue_ns"].astype(np.int64)) >= 0).all()


def test_the_largest_operation_is_known() -> None:
    """Of a rank that has the whole buffer of a reduce-scatter: gradients of both embeddings in float."""
    step = one_step(load_model("llama-7b-fsdp"))
    largest = (step["count"].astype(np.int64) * DATATYPE_BYTES[step["datatype"]]).max() * 8
    assert largest == 4 * (2 * 32_000 * 4096 + 4096)


@pytest.mark.parametrize(("name", "ranks"), SIZES[:5])
def test_computation_follows_from_parameters_and_tokens(name: str, ranks: int) -> None:
    """Six operations per parameter and token except the input embedding and norms; causal attention scores."""
    model, trace = MODELS[name], load_model(name, ranks)
    matrices = model.parameters - model.vocabulary * model.hidden - (2 * model.layers + 1) * model.hidden
    flops = 6 * matrices * model.sequence + 6 * model.layers * model.sequence**2 * model.hidden
    split = min(ranks, 8) if name == "llama-70b-tp8" else 1
    first, second = (one_step(trace, step=step)["enqueue_ns"][0] for step in (0, 1))
    assert int(second) - int(first) == pytest.approx(flops / split / 400e12 * 1e9, rel=1e-6)


def step_time(operations: Operations, communication_ns: float) -> float:
    """Returns the time of a step of one communicator by the rule of schema/trace.md, with equally long operations."""
    gap_end, end, previous = 0.0, 0.0, int(operations["enqueue_ns"][0])
    for row in operations:
        gap = int(row["enqueue_ns"]) - previous
        gap_end = (gap_end if row["flags"] & Flag.GAP_OVERLAPPED else end) + gap
        end = max(gap_end, end) + communication_ns
        previous = int(row["enqueue_ns"])
    return end


def test_computation_hides_fast_communication_only() -> None:
    step = one_step(load_model("llama-7b-fsdp"))
    computation = int(step["enqueue_ns"][-1] - step["enqueue_ns"][0])
    exposed = 1 + 1 + 2 + 3  # root and first layer; last reduce-scatters; scalars
    assert step_time(step, 1e6) == pytest.approx(computation + exposed * 1e6, rel=1e-9)
    assert step_time(step, 1e9) == pytest.approx(len(step) * 1e9, rel=1e-9)


@pytest.mark.parametrize(("name", "ranks"), [("llama-70b-tp8", 12), ("mixtral-8x7b-ep8", 3), ("llama-7b-fsdp", 1)])
def test_impossible_numbers_of_ranks_are_refused(name: str, ranks: int) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot run on {ranks} ranks"):
        load_model(name, ranks)


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(UsageError, match="did you mean llama-7b-fsdp"):
        load_model("llama-7b-fsd")


def test_a_trace_states_its_assumptions() -> None:
    for name in NAMES:
        trace = load_model(name)
        assert trace.is_modelled
        assert "400 TFLOP/s" in trace.problems[0]
        assert not any(rank.operations["device_end_ns"].any() for rank in trace.ranks)
    assert "8 ranks instead" not in str(load_model("llama-70b-tp8", 8).problems)
    assert "no replica" in str(load_model("llama-70b-tp8", 8).problems)
    assert "2 ranks instead of 8" in str(load_model("llama-70b-tp8", 2).problems)


def test_a_model_is_shown_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", "llama-7b-fsdp", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["steps"]["median_us"] is None, "the trace has no communication, so a step has no time"
    assert {row["function"]: row["calls_per_step"] for row in shown["rows"] if row["calls_per_step"] > 3} == {
        "all_gather": 63,
        "reduce_scatter": 32,
    }


def test_a_file_with_the_name_of_a_model_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    Path("llama-7b-fsdp").mkdir()
    assert main(["show", "llama-7b-fsdp"]) == 2


def test_a_trace_is_reproducible() -> None:
    one, other = load_model("mixtral-8x7b-ep8"), load_model("mixtral-8x7b-ep8")
    for left, right in zip(one.ranks, other.ranks, strict=True):
        assert np.array_equal(left.operations, right.operations)
        assert dataclasses.replace(left, operations=right.operations) == right
