"""Disjoint pairs for the rounds of a search, by the circle method: within groups and between groups."""

from collections.abc import Iterable, Sequence

import numpy as np

from busbw.find.cluster import Indices


def join_pairs(parts: Iterable[Indices]) -> Indices:
    """Returns the pairs (rows) of all parts."""
    return np.concatenate([np.empty((0, 2), dtype=np.int64), *parts])


def circle_count(items: int) -> int:
    """Returns the number of successive matchings of `circle_matching` in which every pair occurs exactly once."""
    return 0 if items < 2 else items - 1 + items % 2


def circle_matching(items: Indices, number: int) -> Indices:
    """Returns disjoint pairs (rows) of the items. Successive numbers give every pair once, then repeat.

    The circle method fixes one item and rotates the others. With an odd number, one item has no partner.
    """
    if len(items) < 2:
        return np.empty((0, 2), dtype=np.int64)
    size = len(items) + len(items) % 2
    rotated = (np.arange(size - 1) + number) % (size - 1)
    order = np.concatenate([[size - 1], rotated])
    first_half, second_half = np.split(order, 2)
    pairs = np.stack([first_half, second_half[::-1]], axis=1)
    pairs = pairs[(pairs < len(items)).all(axis=1)]
    # Alternate the direction, so that no item is always on the same side.
    every_second = slice(number % 2, None, 2)
    pairs[every_second] = pairs[every_second, ::-1]
    return np.asarray(items[pairs])


def matching_between(groups: Sequence[Indices], number: int) -> Indices:
    """Returns disjoint pairs of items of different groups, as many as possible.

    Groups are paired by the circle method. Item i of the smaller group is paired with item i + shift of the larger one.
    The shift grows after every pair of groups has occurred.
    """
    cycle = max(circle_count(len(groups)), 1)
    shift = number // cycle
    pairs = []
    for left, right in circle_matching(np.arange(len(groups)), number % cycle):
        first, second = groups[left], groups[right]
        if len(first) > len(second):
            first = np.roll(first, -shift)
        else:
            second = np.roll(second, -shift)
        size = min(len(first), len(second))
        pairs.append(np.stack([first[:size], second[:size]], axis=1))
    return join_pairs(pairs)


def light_matching(groups: Sequence[Indices], number: int, count: int) -> Indices:
    """Returns a few pairs (sender, receiver) of different groups: at most `count` per group and direction.

    Groups are paired by the circle method. Successive numbers give every pair of items of different groups once, in
    one direction, before pairs repeat.
    """
    cycle = max(circle_count(len(groups)), 1)
    pairs = []
    for left, right in circle_matching(np.arange(len(groups)), number % cycle):
        first, second = groups[left], groups[right]
        size = min(count, len(first), len(second))
        for is_reversed in (False, True):
            used = (2 * (number // cycle) + is_reversed) * size  # pairs of both groups in earlier matchings
            positions = (used + np.arange(size)) % len(first)
            shift = used // len(first)  # grows after all items of the first group have been used
            forward = np.stack([first[positions], second[(positions + shift) % len(second)]], axis=1)
            pairs.append(forward[:, ::-1] if is_reversed else forward)
    return join_pairs(pairs)
