"""Tests of the header of published tables."""

import pytest

from busbw.readers.other_tables.published_columns import parse_subtables
from busbw.readers.tables.context import DocumentContext
from busbw.readers.tables.events import UserClaims


@pytest.mark.parametrize(
    ("header", "placement"),
    [
        ("Latency (us)", "unstated"),
        ("In-place latency (us)", "in_place"),
        ("Latency of in-place (us)", "in_place"),
        ("Out-of-place latency (us)", "out_of_place"),
        ("Latency of out of place (us)", "out_of_place"),
    ],
)
def test_header_states_placement(header: str, placement: str) -> None:
    (subtable,) = parse_subtables([["Message Size", header]], DocumentContext(), UserClaims())
    assert [column.placement for column in subtable.columns] == [placement]
