"""Measures the accuracy of `busbw find --logs` on simulated jobs.

Each search has its own seed, which selects the nodes of each job, the slow node and the noise. Development used other
seeds than the published page:

    nice python bench/find_logs.py --seeds 100
"""

import argparse
import sys
from collections import Counter
from collections.abc import Hashable, Iterator
from functools import partial
from itertools import product
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

import numpy as np

from busbw.find.group_runs import GroupRun, GroupRuns, find_slow_nodes

PAGE = Path(__file__).parent / "results" / "find_logs.md"
FIRST_VALIDATION_SEED = 2_000_000
MAX_CHEAP_NODES = 64
"""Larger clusters have a quarter of the searches, because each takes about a second."""
_SLOW_SHARE = 0.3
"""Share of slow runs of a node that is slow now and then."""
_DISTURBANCE = 0.4
"""Mean logarithm of the slow-down of a run that is slow for another reason."""


class Shape(NamedTuple):
    """Jobs of one cluster. Half of them have half of the nodes."""

    nodes: int
    job_nodes: int
    jobs: int
    placement: str = "random"
    """random: any nodes. neighbors: consecutive nodes from a random one on."""

    @property
    def runs_per_node(self) -> float:
        """Mean number of runs of each node."""
        return 0.75 * self.job_nodes * self.jobs / self.nodes


SHAPES = (
    Shape(16, 4, 50),
    Shape(16, 8, 100),
    Shape(64, 8, 50),
    Shape(64, 8, 100),
    Shape(64, 8, 200),
    Shape(64, 8, 200, "neighbors"),
    Shape(64, 32, 100),
    Shape(256, 16, 100),
    Shape(256, 32, 400),
)
FAULTS = (
    ("none", 1.0),
    ("node", 1.15),
    ("node", 1.25),
    ("node", 1.5),
    ("node", 2.0),
    ("node", 4.0),
    ("two", 1.5),
    ("intermittent", 1.5),
)
Case = tuple[Shape, tuple[str, float]]


def main() -> int:
    """Measures all cases and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seeds", type=int, default=100, help="searches of each row, a quarter for large clusters (default 100)"
    )
    parser.add_argument("--first-seed", type=int, default=FIRST_VALIDATION_SEED)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--page", type=Path, default=PAGE)
    arguments = parser.parse_args()
    counts: dict[Case, Counter[str]] = {}
    with Pool(arguments.processes) as pool:
        for case in product(SHAPES, FAULTS):
            searches = arguments.seeds // (4 if case[0].nodes > MAX_CHEAP_NODES else 1)
            seeds = range(arguments.first_seed, arguments.first_seed + searches)
            counts[case] = Counter(pool.map(partial(search, case), seeds))
            # The page is complete up to this case if the benchmark is interrupted.
            arguments.page.write_text("".join(f"{line}\n" for line in page_lines(counts, arguments.first_seed)))
    return 0


def search(case: Case, seed: int) -> str:
    """Returns the result of one search: right, wrong, undecided or missed."""
    runs, slow = simulate(case, seed)
    result = find_slow_nodes(GroupRuns(runs))
    named = {finding.node for finding in result.findings}
    if named - slow:
        return "wrong"
    if result.undecided:
        return "undecided"
    return "right" if named == slow else "missed"


def simulate(case: Case, seed: int) -> tuple[list[GroupRun], set[str]]:
    """Returns the runs of a seed and the slow nodes."""
    shape, (fault, slowdown) = case
    random = np.random.default_rng([seed, shape.nodes, shape.job_nodes, shape.jobs, round(100 * slowdown)])
    slow = random.choice(shape.nodes, {"none": 0, "two": 2}.get(fault, 1), replace=False)
    noise = random.choice([0.01, 0.02, 0.03])
    disturbed_share = random.choice([0, 0.02, 0.05])
    share = _SLOW_SHARE if fault == "intermittent" else 1.0
    runs = []
    for _ in range(shape.jobs):
        count = shape.job_nodes // int(random.choice([1, 2]))
        first = random.integers(shape.nodes)
        neighbors = (first + np.arange(count)) % shape.nodes
        nodes = neighbors if shape.placement == "neighbors" else random.choice(shape.nodes, count, replace=False)
        is_slow = np.isin(slow, nodes).any() and random.random() < share
        run_noise = random.normal(0, noise)
        is_disturbed = random.random() < disturbed_share
        disturbance = is_disturbed * random.exponential(_DISTURBANCE)  # 0 for a run that is not disturbed
        log_slowdown = (np.log(slowdown) if is_slow else 0.0) + (run_noise + disturbance)
        usual_us = 5000 * count**0.1  # grows slowly with the number of nodes
        point: tuple[Hashable, int] = ("sum", 1 << 30)  # operator and size
        times_us = {point: float(usual_us * np.exp(log_slowdown))}
        runs.append(GroupRun(nodes=frozenset(f"n{node}" for node in nodes), configuration=count, times_us=times_us))
    return runs, {f"n{node}" for node in slow}


def page_lines(counts: dict[Case, Counter[str]], first_seed: int) -> Iterator[str]:
    """Yields the page with the accuracy table."""
    seeds = "validation" if first_seed >= FIRST_VALIDATION_SEED else "development"
    yield "# Accuracy of `busbw find --logs` on simulated jobs"
    yield ""
    yield f"Written by `bench/find_logs.py` with {seeds} seeds from {first_seed:,} on. Percent of the searches:"
    yield ""
    yield "- right: all slow nodes are named, and nothing else;"
    yield "- wrong: a healthy node is named;"
    yield "- undecided: nodes could not be told apart, or have too few runs;"
    yield "- missed: nothing, or not every slow node, is named."
    yield ""
    yield "Half of the jobs have half of the nodes. The noise of a run is 1, 2 or 3 %, and 0, 2 or 5 % of the runs are"
    yield "slow for another reason. Jobs of *neighbors*, on consecutive nodes, seldom separate two nodes."
    yield f"An intermittent node is slow in {_SLOW_SHARE * 100:.0f} % of its runs."
    for shape in dict.fromkeys(shape for shape, _ in counts):
        yield ""
        placement = "" if shape.placement == "random" else f" of {shape.placement}"
        jobs = f"{shape.jobs} jobs on {shape.job_nodes} nodes{placement}"
        yield f"## {shape.nodes} nodes, {jobs}: {shape.runs_per_node:.1f} runs per node"
        yield ""
        yield "| fault | slow-down | searches | right | wrong | undecided | missed |"
        yield "| --- | --- | --- | --- | --- | --- | --- |"
        for (case_shape, (fault, slowdown)), results in counts.items():
            if case_shape != shape:
                continue
            percents = [
                f"{100 * results[name] / results.total():.3g}" for name in ("right", "wrong", "undecided", "missed")
            ]
            stated = "" if fault == "none" else f"{slowdown:g}"
            yield f"| {' | '.join([fault, stated, str(results.total()), *percents])} |"


if __name__ == "__main__":
    sys.exit(main())
