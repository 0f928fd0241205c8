"""Finds the steps of a job: the longest sequence of operations that repeats.

The distances between equal operations are candidates for the period, the number of operations of a step. The cost of a
period counts the operations that its repetitions do not explain. The candidate with the lowest cost is chosen.
"""

from dataclasses import dataclass, field

import numpy as np

from busbw.traces.alignment import Indices, Signatures, make_signatures
from busbw.traces.format import TRANSFERS, Function, Operations

_ANCHOR_LENGTHS = (1, 4, 16, 64)
"""Lengths of the sequences (anchors) that are compared. The distance between equal anchors suggests a period."""
_MAX_CANDIDATES, _MIN_CANDIDATE_SHARE = 32, 0.01
"""Maximum number of candidates for the period, and the minimum share of the operations that each must cover."""
_BREAK_COST, _PERIOD_COST = 40.0, 1 / 18
"""Costs of an interruption, and of each operation of the period, as a number of unexplained operations.

A period that is one layer costs more than a period that is one step, because each step interrupts the repetition of
its layers. An evaluation after many steps costs less as an interruption than as part of a longer period.
"""
_MAX_COST = 0.6
"""Maximum cost, as a share of all operations. A random sequence costs more."""
_MIN_COVERAGE = 1 - _MAX_COST
"""Minimum share of the operations in steps. A benchmark repeats each size, but the steps of one size cover less."""
_MAX_SINGLE_SHARE = 0.001
"""`count_repetitions` ignores operations that occur once in a step, up to this share of the sum of all counts."""
_MIN_EXACT_SHARE = 0.95
"""Minimum coverage of steps with equal counts, relative to steps with any counts. With less, counts are ignored."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Repetitions of a sequence of operations on one rank."""

    starts: Indices = field(repr=False)
    """Index of the first operation of each step, ascending. Steps of an interrupted sequence have gaps between them."""
    ends: Indices = field(repr=False)
    """Index after the last operation of each step."""
    period: int
    """Operations per step. It is the median if steps have unequal numbers of sends and receives."""
    coverage: float
    """Share of the operations that are in steps."""


def find_steps(operations: Operations) -> Steps | None:
    """Returns the steps, or None if no sequence repeats.

    A start-up phase and interruptions are not covered. If counts vary between steps, counts are ignored. The period is
    that of the step, although layers and micro-batches repeat within it.
    """
    exact = _find(_signatures(operations), np.arange(len(operations) + 1))
    if exact and exact.coverage == 1:
        return exact
    # Experts receive different counts in each step, and some receive nothing. So consecutive transfers are one element.
    is_transfer = np.isin(operations["function"], TRANSFERS)
    functions = np.where(is_transfer, Function.SEND, operations["function"])
    signatures = make_signatures((functions, operations["communicator"]))
    begins_element = np.ones(len(operations), bool)
    begins_element[1:] = ~is_transfer[1:] | (signatures[1:] != signatures[:-1])
    first = np.flatnonzero(begins_element)
    similar = _find(signatures[first], np.append(first, len(operations)))
    if similar and similar.period == 1:
        similar = None  # calls of one function with any counts are no steps
    if exact and (similar is None or exact.coverage >= _MIN_EXACT_SHARE * similar.coverage):
        return exact
    return similar


def count_repetitions(operations: Operations, steps: Steps) -> int:
    """Returns how often a sequence repeats within each step. Small operations that occur once are ignored.

    A step with repetitions can be several steps of the job, if only one of them reports a value. The operations do not
    show the difference.
    """
    step = operations[steps.starts[0] : steps.ends[0]]
    signatures = _signatures(step)
    _, distinct_numbers, counts = np.unique(signatures, return_inverse=True, return_counts=True)
    is_single = counts[distinct_numbers] == 1
    repeated = signatures[~is_single]
    if step["count"][is_single].sum() > _MAX_SINGLE_SHARE * step["count"].sum():
        return 1
    for length in range(1, len(repeated) // 2 + 1):
        if len(repeated) % length == 0 and np.array_equal(repeated[length:], repeated[:-length]):
            return len(repeated) // length
    return 1


def _signatures(operations: Operations) -> Signatures:
    """Returns a number for each operation that is equal for equal operations, counts included."""
    return make_signatures(operations[name] for name in ("count", "communicator", "function", "datatype", "peer"))


def _find(signatures: Signatures, borders: Indices) -> Steps | None:
    """Returns the steps of a sequence of elements. An element is one operation, or several consecutive transfers.

    Args:
        signatures: A number for each element. Equal elements have equal numbers.
        borders: Index of the first operation of each element, and the number of operations.
    """
    costs = {period: _cost(signatures, period) for period in _candidates(signatures)}
    period = min(costs, key=lambda candidate: (costs[candidate], candidate), default=0)
    if not period or costs[period] > _MAX_COST * len(signatures):
        return None
    begins, lengths = _repetitions(signatures, period)
    sums = _window_sums(signatures, period)
    reference_step = begins[np.argmax(lengths)]  # the first period of the longest repetition
    first_elements = []  # of each step
    end = 0
    for match in np.flatnonzero(sums == sums[reference_step]):
        if match >= end:  # steps do not overlap
            first_elements.append(match)
            end = match + period
    starts = borders[np.array(first_elements)]
    ends = borders[np.array(first_elements) + period]
    sizes = ends - starts
    coverage = float(sizes.sum() / borders[-1])
    if coverage < _MIN_COVERAGE:
        return None
    return Steps(starts=starts, ends=ends, period=int(np.median(sizes)), coverage=coverage)


def _candidates(signatures: Signatures) -> list[int]:
    """Returns the distances between equal sequences. The distances that cover most operations come first."""
    covered = np.zeros(len(signatures) + 1)  # number of operations between equal sequences, by distance
    for length in _ANCHOR_LENGTHS:
        if len(signatures) < 2 * length:
            break
        anchors = _window_sums(signatures, length)
        order = np.argsort(anchors, kind="stable")
        distances = np.diff(order)[np.diff(anchors[order]) == 0]  # from each anchor to the next equal one
        covered += np.bincount(distances, minlength=len(covered)) * np.arange(len(covered))
    best = np.argsort(covered, kind="stable")[::-1][:_MAX_CANDIDATES]
    min_covered = max(1.0, _MIN_CANDIDATE_SHARE * len(signatures))
    return [int(period) for period in best if covered[period] >= min_covered and 2 * period <= len(signatures)]


def _window_sums(signatures: Signatures, length: int) -> Signatures:
    """Returns a number for each window of this length. Equal windows have equal numbers.

    The number is a polynomial in `multiplier` modulo 2^64. It comes from a cumulative sum, divided by a power.
    """
    multiplier = np.uint64(0xD6E8FEB86659FD93)
    powers = np.cumprod(np.full(len(signatures), multiplier))
    inverse = np.uint64(pow(int(multiplier), -1, 2**64))
    inverse_powers = np.cumprod(np.full(len(signatures), inverse))
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(signatures * powers)])
    count = len(signatures) - length + 1
    windows: Signatures = (sums[length:] - sums[:count]) * inverse_powers[:count]
    return windows


def _repetitions(signatures: Signatures, period: int) -> tuple[Indices, Indices]:
    """Returns the beginnings and lengths of the parts that repeat at least once with this period."""
    is_equal = np.concatenate([[False], signatures[period:] == signatures[:-period], [False]])
    changes = np.flatnonzero(is_equal[1:] != is_equal[:-1])
    begins, ends = changes[::2], changes[1::2]  # they alternate, because `is_equal` begins and ends with False
    equal_count = ends - begins
    repeats = equal_count >= period
    return begins[repeats], equal_count[repeats] + period


def _cost(signatures: Signatures, period: int) -> float:
    """Returns the cost of a period, as a number of operations."""
    begins, lengths = _repetitions(signatures, period)
    if not len(begins):
        return float("inf")
    count = len(signatures)
    explained = np.minimum(lengths, np.diff(begins, append=count)).sum()  # a part ends where the next one begins
    return count - int(explained) + _BREAK_COST * (len(begins) - 1) + _PERIOD_COST * period
