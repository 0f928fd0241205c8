"""Disjoint pairs: the circle method, within groups and between groups."""

from collections.abc import Sequence

import numpy as np

from busbw.find.cluster import Indices


def circle_count(items: int) -> int:
    """Returns the number of matchings in which every pair of items occurs exactly once."""
    return 0 if items < 2 else items - 1 + items % 2


def circle_matching(items: Indices, turn: int) -> Indices:
    """Returns disjoint pairs (rows) of the items. Successive turns give every pair once, then repeat.

    The circle method fixes one item and rotates the others. With an odd number, one item has no partner.
    """
    if len(items) < 2:
        return np.empty((0, 2), dtype=np.int64)
    size = len(items) + len(items) % 2
    rotation = (np.arange(size - 1) + turn) % (size - 1)
    order = np.concatenate([[size - 1], rotation])
    pairs = np.stack([order[: size // 2], order[: size // 2 - 1 : -1]], axis=1)
    pairs = pairs[(pairs < len(items)).all(axis=1)]
    # Alternate the direction, so that no item is always on the same side.
    pairs[turn % 2 :: 2] = pairs[turn % 2 :: 2, ::-1]
    return np.asarray(items[pairs])


def matching_between(groups: Sequence[Indices], turn: int) -> Indices:
    """Returns disjoint pairs of items of different groups.

    Groups are paired by the circle method. Within two groups, item i meets item i + shift; each cycle of the circle has
    another shift, so partners repeat late.
    """
    rounds = circle_count(len(groups))
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for left, right in circle_matching(np.arange(len(groups)), turn % max(rounds, 1)):
        first, second = groups[left], groups[right]
        size = min(len(first), len(second))
        rotated_first, rotated_second = np.roll(first, -turn), np.roll(second, -(turn // max(rounds, 1)) - 2 * turn)
        pairs.append(np.stack([rotated_first[:size], rotated_second[:size]], axis=1))
    return np.concatenate(pairs)
