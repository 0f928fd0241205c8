"""Calls that a builder of a trace stores, and calls that it refuses."""

import pytest

from busbw.traces import format as layout
from busbw.traces.building import Call, RankBuilder
from busbw.traces.format import DeviceClock, Kind

CALL = Call(function=1, communicator=2, elements=3)


def stored(call: Call) -> dict[str, int]:
    rank = RankBuilder("file", "test")
    assert rank.add(call) == 0
    (operation,) = rank.operations
    return {name: int(operation[name]) for name in layout.OPERATION.names or ()}


def test_each_value_is_stored_in_its_field() -> None:
    values = {
        "datatype": 4,
        "redop": 2,
        "peer": 5,
        "stream": 6,
        "thread": 7,
        "group": 8,
        "flags": 9,
        "enqueue_ns": 10,
        "device_start_ns": 11,
        "device_end_ns": 12,
        "algorithm": 13,
        "protocol": 14,
        "channels": 15,
    }
    assert stored(CALL._replace(**values)) == {
        "kind": Kind.OPERATION,
        "function": 1,
        "communicator": 2,
        "count": 3,
        "network_steps": layout.UNKNOWN_COUNT,
        "reserved": 0,
        **values,
    }


@pytest.mark.parametrize("field", ["datatype", "redop"])
@pytest.mark.parametrize("value", [-1, 99, 255, 256, 300])
def test_unknown_numbers_of_types_and_operators_are_stored_as_unknown(field: str, value: int) -> None:
    assert stored(CALL._replace(**{field: value}))[field] == layout.UNKNOWN_BYTE


def test_known_numbers_of_types_and_operators_are_stored() -> None:
    last = {"datatype": len(layout.DATATYPE_NAMES) - 1, "redop": len(layout.REDOP_NAMES) - 1}
    assert stored(CALL._replace(**last)).items() >= last.items()
    assert stored(CALL._replace(datatype=0, redop=0)).items() >= {"datatype": 0, "redop": 0}.items()


def test_a_duration_without_a_start_is_stored_from_1() -> None:
    rank = RankBuilder("file", "test")
    assert rank.add(CALL._replace(duration_ns=40)) == 0
    assert rank.operations[["device_start_ns", "device_end_ns"]].tolist() == [(1, 41)]
    assert rank.device_clock == DeviceClock.DURATION


@pytest.mark.parametrize(
    ("field", "value"),
    [("elements", -1), ("elements", (1 << 60) + 1), ("function", 256), ("peer", 1 << 31), ("enqueue_ns", -1)],
)
def test_a_call_with_an_impossible_value_is_refused(field: str, value: int) -> None:
    rank = RankBuilder("file", "test")
    assert rank.add(CALL._replace(**{field: value})) == -1
    assert (rank.refused_count, len(rank.operations), len(rank.sequences)) == (1, 0, 0)
