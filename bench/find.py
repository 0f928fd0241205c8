"""Measures the accuracy of `busbw find` and of three existing rules on simulated clusters.

Each search has its own seed, which selects the fabric, the place of the fault and the noise. Development uses seeds
below `FIRST_VALIDATION_SEED`; the published page uses only seeds from there on. Results are added to `--results`, so an
interrupted benchmark can be resumed. The page goes to bench/results/find.md:

    python bench/find.py --nodes 2 4 16 64 256 1024 --seeds 60 60 60 60 10 3 --processes 32

The page shows all results of the files, also those of earlier calls. Another machine can measure with `--no-page
--limit-s 450`; `--page-only --results FILE FILE` then joins the files. Measuring needs only numpy, scipy and msgspec.
"""

import argparse
import math
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from itertools import islice, product, takewhile
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
from find_baselines import RULES, JobMeasurer
from find_speed import is_speed_sentence, speed_sentence
from find_truth import baseline_result, find_result, truth_of
from msgspec import Struct

from busbw.find.findings import make_findings
from busbw.find.search import Search
from busbw.simulator.fabric import Fabric, Layout
from busbw.simulator.faults import SimulatedFault
from busbw.simulator.measurer import SimulatedMeasurer
from busbw.simulator.simulation import Noise, Simulation

HERE = Path(__file__).parent
RESULTS = HERE.parent / "build" / "bench-results" / "find.jsonl"
PAGE = HERE / "results" / "find.md"
FIRST_VALIDATION_SEED = 2_000_000
SLOWDOWNS = (1.15, 1.25, 1.5, 2.0, 4.0)
NODES = (2, 4, 16, 64, 256, 1024)
GPUS = 8
FAULTS = (
    "gpu",
    "gpu-ports",
    "nvlink",
    "nic",
    "nic-send",
    "nic-receive",
    "node",
    "pair",
    "rail",
    "leaf",
    "uplink",
    "one-uplink",
    "intermittent",
    "two",
    "failover",
    "dead",
    "none",
)
"""Faults in the order of the page. Those of `draw_fault`, and "two": two faults at the same time."""
_SLOW_SHARE = 0.2
"""Share of slow iterations of an intermittent NIC."""
_GROUP_SIZES: dict[Layout, tuple[int, ...]] = {"rail": (4, 8, 16, 32), "leaf-spine": (2, 4, 8, 16)}
"""Numbers of nodes below one leaf switch, by layout."""
_MAX_NAMES = 12
"""Maximum number of named parts that a score stores."""


class Score(Struct, frozen=True):
    """Result of one method on one simulated cluster."""

    method: str
    fault: str
    slowdown: float
    nodes: int
    seed: int
    result: str
    """right, wrong, undecided or missed."""
    rounds: int
    simulated_s: float | None
    real_s: float
    names: list[str]
    truth: list[str]


class Case(NamedTuple):
    """One search of one method."""

    method: str
    fault: str
    slowdown: float
    nodes: int
    seed: int


def main() -> int:
    """Measures the missing cases and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, nargs="+", default=list(NODES))
    parser.add_argument("--faults", nargs="+", default=list(FAULTS), choices=FAULTS)
    parser.add_argument("--slowdowns", type=float, nargs="+", default=list(SLOWDOWNS))
    parser.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        default=[40],
        help="searches of each row, one number or one for each of --nodes",
    )
    parser.add_argument("--first-seed", type=int, default=FIRST_VALIDATION_SEED)
    parser.add_argument("--no-baselines", action="store_true")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=math.inf, help="submit no search after this time")
    parser.add_argument("--results", type=Path, nargs="+", default=[RESULTS], help="new results go to the first file")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--no-page", action="store_true", help="only measure")
    parser.add_argument("--page-only", action="store_true", help="measure nothing, not even the speed")
    parser.add_argument("--failures", action="store_true", help="print each case that is not right")
    arguments = parser.parse_args()
    if len(arguments.seeds) not in (1, len(arguments.nodes)):
        parser.error("--seeds: takes one number, or one for each of --nodes")
    methods = ("find",) if arguments.no_baselines else ("find", *RULES)
    arguments.results[0].parent.mkdir(parents=True, exist_ok=True)
    stored = {case_of(score): score for path in arguments.results for score in read_scores(path)}
    if not arguments.page_only:
        seeds = arguments.seeds if len(arguments.seeds) > 1 else arguments.seeds * len(arguments.nodes)
        cases = [
            Case(method, fault, slowdown, nodes, arguments.first_seed + seed)
            for (nodes, count), fault in product(zip(arguments.nodes, seeds, strict=True), arguments.faults)
            for slowdown, seed in product(arguments.slowdowns if has_slowdown(fault) else [0.0], range(count))
            for method in methods
            if can_occur(fault, nodes)
        ]
        missing = [case for case in cases if case not in stored]
        for score in measure_all(missing, arguments.results[0], arguments.processes, arguments.limit_s):
            stored[case_of(score)] = score
    selected = [score for score in stored.values() if score.seed >= arguments.first_seed]
    if arguments.failures:
        print_failures(selected)
    if not arguments.no_page:
        speed = stored_speed_sentence(arguments.page) if arguments.page_only else speed_sentence()
        page = "\n".join(page_lines(selected, speed))
        arguments.page.write_text(page + "\n")
        print(page)
    return 0


def measure_all(cases: Iterable[Case], path: Path, processes: int, limit_s: float) -> Iterator[Score]:
    """Yields the scores of the cases, and adds each one to a file. After the limit, it submits no more cases.

    The largest clusters are first, so that no long search runs alone at the end. Of clusters of a size, the searches
    with the first seeds are first, so that an interrupted benchmark has a few searches of each row.
    """
    end_s = time.monotonic() + limit_s
    largest_first = sorted(cases, key=lambda case: (-case.nodes, case.seed, case.method != "find"))
    until_limit = takewhile(lambda _: time.monotonic() < end_s, largest_first)
    with ProcessPoolExecutor(processes) as executor, path.open("ab") as results:
        # Few cases are submitted in advance, because the executor starts all submitted cases.
        running = {executor.submit(measure, case) for case in islice(until_limit, 2 * processes)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            running |= {executor.submit(measure, case) for case in islice(until_limit, len(done))}
            for future in done:
                score = future.result()
                results.write(msgspec.json.encode(score) + b"\n")
                results.flush()
                yield score


def case_of(score: Score) -> Case:
    """Returns the case that has this score."""
    return Case(score.method, score.fault, score.slowdown, score.nodes, score.seed)


def stored_speed_sentence(page: Path) -> str:
    """Returns the sentence of an earlier page about time and memory. Empty if the page has none."""
    lines = page.read_text().splitlines() if page.exists() else []
    return next((line for line in lines if is_speed_sentence(line)), "")


def print_failures(scores: Iterable[Score]) -> None:
    """Prints each search of `busbw find` that is not right."""
    for score in scores:
        if score.method == "find" and score.result != "right":
            configuration = (score.nodes, score.fault, score.slowdown, score.seed)
            print(*configuration, score.result, score.names, "truth", score.truth)


def has_slowdown(fault: str) -> bool:
    """Returns False for faults with a fixed effect, and for "none"."""
    return fault not in ("none", "dead", "failover")


def can_occur(fault: str, nodes: int) -> bool:
    """Returns False for a fault that a cluster of this size cannot have."""
    return nodes > 2 or fault not in ("pair", "uplink", "one-uplink", "leaf", "node")


def read_scores(path: Path) -> list[Score]:
    """Returns the scores of earlier runs. Removes an incomplete last line, which an interrupted run can leave."""
    if not path.exists():
        return []
    text = path.read_bytes()
    complete = text[: text.rfind(b"\n") + 1]
    if complete != text:
        path.write_bytes(complete)
    return [msgspec.json.decode(line, type=Score) for line in complete.splitlines()]


def measure(case: Case) -> Score:
    """Measures one case with one method."""
    method, fault, slowdown, nodes, seed = case
    fabric, faults, noise = draw(fault, slowdown, nodes, seed)
    simulation = Simulation(fabric, faults, noise, seed)
    start_s = time.perf_counter()
    truth = [truth_of(simulated_fault, fabric) for simulated_fault in faults]
    if method != "find":
        random = np.random.default_rng(seed)
        accusation = RULES[method](JobMeasurer(simulation), nodes, random)
        result = baseline_result(fault, faults, accusation.nodes)
        names = [f"n{node}" for node in sorted(accusation.nodes)]
        rounds, simulated_s = accusation.rounds, None
    else:
        search = Search(measurer=SimulatedMeasurer(simulation), seed=seed)
        explanation = search.run()
        findings, undecided = make_findings(search.observations(), explanation, search.measurer.cluster)
        undecided_parts = [part for choice in undecided for part in choice.between]
        result = find_result(fault, truth, findings, undecided_parts)
        names = [finding.text for finding in findings] + [f"? {part.text}" for part in undecided_parts]
        rounds, simulated_s = len(search.rounds), search.measured_s
    return Score(
        method=method,
        fault=fault,
        slowdown=slowdown,
        nodes=nodes,
        seed=seed,
        result=result,
        rounds=rounds,
        simulated_s=simulated_s,
        real_s=time.perf_counter() - start_s,
        names=names[:_MAX_NAMES],
        truth=[" or ".join(part.text for part in same_hardware) for same_hardware in truth],
    )


def draw(fault: str, slowdown: float, nodes: int, seed: int) -> tuple[Fabric, list[SimulatedFault], Noise]:
    """Returns fabric, faults and noise of a seed."""
    fault_number = sum(map(ord, fault))
    random = np.random.default_rng([seed, nodes, fault_number])
    is_rail_layout = random.random() < 0.6 or nodes < 16
    layout: Layout = "rail" if is_rail_layout else "leaf-spine"
    sizes = [size for size in _GROUP_SIZES[layout] if size * 3 <= nodes]
    fabric = Fabric(
        nodes=nodes,
        gpus=GPUS,
        layout=layout,
        nodes_per_group=int(random.choice(sizes)) if sizes else max(nodes // 2, 1),
        oversubscription=float(random.choice([1, 1, 2, 4])),
        planes=int(random.choice([1, 1, 2])),
        is_adaptive=bool(random.random() < 0.4),
    )
    scale = float(random.choice([0.5, 1.0, 1.5]))
    noise = Noise(flow=0.01 * scale, iteration=0.01 * scale, other_jobs=0.01 * scale)
    if fault == "none":
        return fabric, [], noise
    if fault == "two":
        second_kind = str(random.choice(["nic-send", "gpu", "node" if nodes > 4 else "gpu"]))
        first = draw_fault("nic", slowdown, fabric, random)
        second = draw_fault(second_kind, slowdown, fabric, random)
        while second.place[0] == first.place[0]:  # the two faults must be on different nodes
            second = draw_fault(second_kind, slowdown, fabric, random)
        return fabric, [first, second], noise
    return fabric, [draw_fault(fault, slowdown, fabric, random)], noise


def draw_fault(fault: str, slowdown: float, fabric: Fabric, random: np.random.Generator) -> SimulatedFault:
    """Returns a fault of a kind at a random place."""
    node, nic = int(random.integers(fabric.nodes)), int(random.integers(fabric.gpus))
    leaf = fabric.leaf(node, nic)
    other_node = int((node + 1 + random.integers(fabric.nodes - 1)) % fabric.nodes)
    places = {
        "node": (node,),
        "pair": (node, other_node),
        "rail": (nic,),
        "leaf": (leaf,),
        "uplink": (leaf,),
        "one-uplink": (leaf, int(random.integers(fabric.uplinks))),
        "nvlink": (node, nic, int((nic + 1 + random.integers(fabric.gpus - 1)) % fabric.gpus)),
    }
    if fault == "dead":
        slowdown = math.inf
    elif not has_slowdown(fault):
        slowdown = 1.0  # a failover has no slowdown
    return SimulatedFault(
        kind={"intermittent": "nic", "dead": "nic"}.get(fault, fault),
        place=places.get(fault, (node, nic)),
        slowdown=slowdown,
        share=_SLOW_SHARE if fault == "intermittent" else 1.0,
    )


def page_lines(scores: list[Score], speed: str) -> Iterator[str]:
    """Yields the page with the accuracy tables. `speed`: sentence about time and memory of a search."""
    groups: dict[tuple[int, str, float], dict[str, list[Score]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        groups[score.nodes, score.fault, score.slowdown][score.method].append(score)
    seeds = {score.seed for score in scores}
    yield "# Accuracy of `busbw find` on simulated clusters"
    yield ""
    first = min(seeds, default=0)
    validation = "validation" if first >= FIRST_VALIDATION_SEED else "development"
    yield f"Written by `bench/find.py` with {validation} seeds from {first:,} on. Results in percent of the searches:"
    yield ""
    yield "- right: all faults are named with kind, place and direction, and nothing else;"
    yield "- wrong: something healthy is named;"
    yield "- undecided: the fault is among the parts that the search could not tell apart;"
    yield "- missed: nothing, or not every fault, is named."
    yield ""
    yield "The three rules name nodes only. They are right if they name exactly the nodes with the fault."
    yield "Their job is as slow as its slowest flow, so collisions of hashed uplinks fail healthy jobs, too."
    yield ""
    yield "Rows with few searches say little: one of 5 is 20 %. Real seconds include the simulation, under load."
    yield speed
    yield "A kind of fault that a cluster of this size cannot have is missing."
    yield "Bad ports of a GPU (`gpu-ports`) are named only from a slow-down of 1.6 on, because healthy GPUs differ, too"
    yield "([measured](h200-x4-flows.md))."
    for nodes in sorted({key[0] for key in groups}):
        rows = {key: value for key, value in groups.items() if key[0] == nodes}
        yield ""
        yield f"## {nodes:,} nodes x {GPUS} GPUs"
        yield ""
        methods = [method for method in RULES if any(method in row for row in rows.values())]
        headings = [
            "fault",
            "slow-down",
            "searches",
            "right",
            "wrong",
            "undecided",
            "missed",
            "rounds",
            "simulated s",
            "real s",
        ]
        yield "| " + " | ".join([*headings, *(f"{method}: right / wrong" for method in methods)]) + " |"
        yield "| --- " * (len(headings) + len(methods)) + "|"
        for key in sorted(rows, key=lambda row: (FAULTS.index(row[1]), row[2])):
            _, fault, slowdown = key
            yield _row(fault, slowdown, rows[key], methods)


def _row(fault: str, slowdown: float, by_method: dict[str, list[Score]], methods: list[str]) -> str:
    ours = by_method.get("find", [])
    cells = [fault, f"{slowdown:g}" if slowdown else "", str(len(ours))]
    cells += [_percent(ours, result) for result in ("right", "wrong", "undecided", "missed")]
    simulated_s = [score.simulated_s for score in ours if score.simulated_s is not None]
    cells += [
        f"{np.median([score.rounds for score in ours]):.0f}" if ours else "",
        f"{np.median(simulated_s):.1f}" if simulated_s else "",
        f"{np.median([score.real_s for score in ours]):.2f}" if ours else "",
    ]
    cells += [f"{_percent(by_method[method], 'right')} / {_percent(by_method[method], 'wrong')}" for method in methods]
    return f"| {' | '.join(cells)} |"


def _percent(scores: list[Score], result: str) -> str:
    return f"{100 * sum(score.result == result for score in scores) / len(scores):.3g}" if scores else ""


if __name__ == "__main__":
    sys.exit(main())
