"""Evidence of each flow for a slow part on its path, as log likelihood ratios.

The excess of a flow is its log time less that of its healthy peers. A flow is as slow as the slowest part on its path,
so its excess is the excess of this part plus noise. With a small probability, something other than a fault slows the
flow: a collision of hashed flows, or traffic of another job. Comparable flows form a class.

For each hypothesis about a part, the sum over its flows is the log of a likelihood ratio. The mean of these ratios over
several hypotheses is an e-value: without a fault, its expectation is at most 1. So the probability that an e-value
exceeds K is at most 1/K, even if the search evaluates it repeatedly (Wang and Ramdas, arXiv 2009.02824).

Evidence has single precision: a search of 1,024 nodes then takes a quarter less time.
"""

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from busbw.find.cluster import Indices
from busbw.find.observations import Values
from busbw.statistics.binomial import binomial_mass

Evidence = NDArray[np.float32]
Floats = NDArray[np.floating]

DEAD_LEVEL = 5.0
"""Excess that stands for a dead flow. It is above the excess of any flow that ends."""
_SLOWDOWNS = (1.08, 1.11, 1.15, 1.2, 1.25, 1.32, 1.4, 1.5, 1.65, 1.8, 2.0, 2.25, 2.6, 3.0, 3.5, 4.0, 5.0, 6.5, 8.0)
LEVELS: Values = np.array([*np.log(_SLOWDOWNS), *np.log([12.0, 20.0, 40.0]), DEAD_LEVEL])
"""Excess of the hypotheses about a part that is always slow."""
_WIDE_SHARE, _WIDE_FACTOR = 0.05, 3.0
"""Share of healthy flows with a larger noise, and factor of this noise, so that outliers change the evidence little."""
_TAIL_RATE = 1.5
"""Rate of the exponential distribution of the excess of flows that are slow without a fault."""
_SQRT_2_PI = math.sqrt(2 * math.pi)
_FLOOR = 1e-4
"""Density of an outlier of any size. It bounds the evidence of one flow."""
_RELATIVE_NOISE = 0.12
"""Noise of a slow flow relative to its excess (at most 1), because the hypotheses are discrete and slow parts vary."""

_HIDDEN_SHARE = 0.97
"""Probability that a slow part is the faster end of a flow between unlike parts. Its slow-down may then stay hidden."""

LINK_SHARES = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03)
"""Shares of connections that cross a slow one of several hashed links. A connection always crosses the same link."""
_MAX_LOG = 80.0
"""Largest log evidence of a connection, so that its exponential is finite."""
_ALL_SLOW = 0.75
"""Probability that all iterations of a flow are slow, if the flow is slow as a whole. Otherwise more than half of them
are slow, each number with equal probability."""
_COUNT_PRIOR, _COUNT_PRIOR_SHARE = 0.02, 1e-3
"""Flows added to each bin of a histogram, so that no probability is zero: a constant, and a share of the mean bin."""
_OUTLIER_SHARE = 0.05
"""Share of flows of a part slow within each flow that behave like healthy flows. It bounds the evidence of one flow."""
_SLOW_ITERATION_DEVIATIONS = 5.0
"""An iteration is slow if its excess is more than this many times the noise, and more than `MIN_SLOW_ITERATION`."""
MIN_SLOW_ITERATION = 0.1
"""Minimum excess, in log time, of a slow iteration."""
SHARES = (0.04, 0.08, 0.14, 0.2, 0.3, 0.45, 0.7)
"""Shares of slow iterations or flows of the hypotheses about a part that is slow now and then."""


def log_density(excess: Floats, level: Floats, noise: Floats, slow_share: Floats, tail: Floats | float = 0.0) -> Floats:
    """Returns the log density of an excess if the slowest part on the path has this level.

    The result has the precision of the arguments, so constants are Python's: a scalar of numpy has double precision.

    Args:
        excess: Observed excess.
        level: Excess of the slowest part.
        noise: Standard deviation.
        slow_share: Share of flows that are slower without a fault.
        tail: Density of the excess of these slower flows. The model's own density is used if it is larger.
    """
    distance = excess - level
    width = np.sqrt(noise**2 + (_RELATIVE_NOISE * np.minimum(level, 1.0)) ** 2)
    normal = np.exp(-0.5 * (distance / width) ** 2) / width
    wide = np.exp(-0.5 * (distance / (_WIDE_FACTOR * width)) ** 2) / (_WIDE_FACTOR * width)
    core = ((1 - _WIDE_SHARE) * normal + _WIDE_SHARE * wide) / _SQRT_2_PI
    exponential = np.exp(-_TAIL_RATE * np.maximum(distance, 0)) * _TAIL_RATE * (distance > 0)
    slow = np.maximum(exponential, tail)
    return np.asarray(np.log((1 - slow_share) * core + slow_share * slow + _FLOOR))


def persistent_evidence(
    excess: Values, explained: Values, noise: Values, slow_share: Values, tail: Values, headroom: Values
) -> Evidence:
    """Returns the evidence of each flow (row) for a part of each of `LEVELS` (column) on its path.

    Args:
        excess: Excess of each flow.
        explained: Excess that the other slow parts explain.
        noise: Standard deviation of each flow.
        slow_share: For each flow, the share of comparable flows that are slow without a fault.
        tail: For each flow, the density of its excess among these slow flows. 0: unknown.
        headroom: For each flow, the excess that a part at its faster end has before the flow becomes slower.
    """
    unexplained_tail = np.where(explained > 0, 0.0, tail)  # `tail` describes only flows that no known part slows
    of_flows = (excess, explained, noise, slow_share, unexplained_tail, headroom)
    excess32, explained32, noise32, slow_share32, tail32, headroom32 = (one.astype(np.float32) for one in of_flows)
    without_part = log_density(excess32, explained32, noise32, slow_share32, tail32)
    limited = np.flatnonzero(headroom)
    evidence = np.empty((len(excess), len(LEVELS)), dtype=np.float32)
    # One by one, because arrays of one level fit into the processor cache.
    for column, level in enumerate(LEVELS.astype(np.float32)):
        with_part = log_density(excess32, np.maximum(level, explained32), noise32, slow_share32)
        evidence[:, column] = with_part - without_part
        if len(limited):
            beyond = np.maximum(level - headroom32[limited], explained32[limited])
            tail_beyond = tail32[limited] * (beyond <= 0)
            hidden = log_density(excess32[limited], beyond, noise32[limited], slow_share32[limited], tail_beyond)
            evidence[limited, column] = with_hidden(evidence[limited, column], hidden - without_part[limited])
    return evidence


def with_hidden(evidence: Floats, hidden: Floats | float) -> Floats:
    """Returns the evidence of flows between unlike parts. `hidden`: that for a part at the faster end."""
    return np.asarray(np.logaddexp(np.log(1 - _HIDDEN_SHARE) + evidence, np.log(_HIDDEN_SHARE) + hidden))


def connection_evidence(evidence: Evidence) -> Iterator[Evidence]:
    """Yields the evidence of each connection for slow links, for each of `LINK_SHARES`: log(share * odds + 1 - share).

    Args:
        evidence: Sum of the evidence of the flows of each connection: log odds that it crosses a slow link.
    """
    yield evidence  # the first share is 1
    odds = np.exp(np.minimum(evidence, _MAX_LOG))
    for share in LINK_SHARES[1:]:
        mixed = share * odds
        mixed += 1 - share
        yield np.log(mixed, out=mixed)  # much faster than numpy.logaddexp


def slow_iteration_limit(noise: Values) -> Values:
    """Returns the excess from which an iteration of each flow is slow, from the standard deviation of each flow."""
    return np.maximum(_SLOW_ITERATION_DEVIATIONS * noise, MIN_SLOW_ITERATION)


def intermittent_evidence(slow_counts: Indices, classes: Indices, iterations: int) -> Values:
    """Returns an array [class, slow iterations, hypothesis]: evidence of a flow for a part that is slow now and then.

    A healthy flow has slow iterations as often as its class. A hypothesis is a share of slow iterations within each
    flow, or a share of flows that are slow as a whole.

    Args:
        slow_counts: Number of slow iterations of each flow.
        classes: Class of each flow.
        iterations: Number of iterations of each flow.
    """
    counts = np.arange(iterations + 1)
    shares = np.array(SHARES)
    evidence = np.zeros((int(classes.max(initial=0)) + 1, len(counts), 2 * len(SHARES)))
    # Probability of each count in a flow that is slow as a whole: more than half of its iterations, usually all.
    is_upper_half = counts * 2 > iterations
    spread_over_upper_half = is_upper_half / max(is_upper_half.sum(), 1)
    whole = ((1 - _ALL_SLOW) * spread_over_upper_half + _ALL_SLOW * (counts == iterations))[:, None]
    for class_number in np.unique(classes):
        counts_of_class = slow_counts[classes == class_number]
        flows_by_count = np.bincount(counts_of_class, minlength=len(counts))
        histogram = flows_by_count + _COUNT_PRIOR_SHARE * len(counts_of_class) / len(counts) + _COUNT_PRIOR
        healthy = (histogram / histogram.sum())[:, None]  # probability of each count in a healthy flow
        # The part makes a share of those iterations slow that would be fast in a healthy flow.
        within = np.zeros((len(counts), len(shares)))
        for healthy_count in counts:
            added = counts[: len(counts) - healthy_count]
            within[healthy_count:] += healthy[healthy_count] * binomial_mass(added, iterations - healthy_count, shares)
        shares_within = (1 - _OUTLIER_SHARE) * within + _OUTLIER_SHARE * healthy
        shares_of_flows = (1 - shares) * healthy + shares * whole
        evidence[class_number] = np.log(np.hstack([shares_within, shares_of_flows]) / healthy)
    return evidence
