"""The layout of a trace file in Python is that of the C++ header."""

import re
import subprocess
import tracemalloc
from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest

from busbw.traces import format as layout

ROOT = Path(__file__).resolve().parents[3]
HEADER = ROOT / "common" / "trace" / "format.hpp"
STRUCTURES = {
    "OperationRecord": layout.OPERATION,
    "CommunicatorRecord": layout.COMMUNICATOR,
    "MembersRecord": layout.MEMBERS,
    "Header": layout.HEADER,
}


def test_fields_have_the_offsets_and_sizes_of_the_header(tmp_path: Path) -> None:
    lines = [
        f'std::printf("{structure} {name} %zu %zu\\n", offsetof({structure}, {name}), sizeof({structure}::{name}));'
        for structure, dtype in STRUCTURES.items()
        for name in dtype.names or ()
    ]
    source = tmp_path / "offsets.cpp"
    source.write_text(
        "#include <cstdio>\n#include <cstddef>\n"
        f'#include "{HEADER}"\nusing namespace busbw::trace;\nint main() {{\n' + "\n".join(lines) + "\n}\n"
    )
    program = tmp_path / "offsets"
    subprocess.run(["g++", "-std=c++20", "-Wno-invalid-offsetof", "-o", program, source], check=True)
    found = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    expected = []
    for structure, dtype in STRUCTURES.items():
        for name in dtype.names or ():
            assert dtype.fields
            field_type, offset = dtype.fields[name][:2]
            expected.append(f"{structure} {name} {offset} {field_type.itemsize}")
    assert found.split("\n")[:-1] == expected


@pytest.mark.parametrize("structure", STRUCTURES)
def test_no_field_of_the_header_is_absent(structure: str) -> None:
    body = re.search(rf"struct (?:alignas\(\w+\) )?{structure} {{(.*?)\n}};", HEADER.read_text(), re.DOTALL)
    assert body
    names = re.findall(r"(\w+);", re.sub(r"//.*", "", body[1]))
    assert tuple(names) == STRUCTURES[structure].names


def test_records_have_the_documented_size() -> None:
    for dtype in (layout.OPERATION, layout.COMMUNICATOR, layout.MEMBERS):
        assert dtype.itemsize == layout.RECORD_BYTES
    assert layout.HEADER.itemsize <= layout.HEADER_BYTES


@pytest.mark.parametrize(
    ("name", "enum"),
    [
        ("Kind", layout.Kind),
        ("Function", layout.Function),
        ("Algorithm", layout.Algorithm),
        ("Protocol", layout.Protocol),
        ("Flag", layout.Flag),
        ("TraceClock", layout.DeviceClock),
    ],
)
def test_enumerations_have_the_values_of_the_header(name: str, enum: type[IntEnum]) -> None:
    body = re.search(rf"enum (?:class )?{name} : std::uint8_t {{(.*?)}};", HEADER.read_text(), re.DOTALL)
    assert body
    found = {key: int(value) for key, value in re.findall(r"(\w+) = (\d+)", re.sub(r"//.*", "", body[1]))}
    as_cpp = {
        "k" + "".join(part.capitalize() for part in one.name.split("_")) if name == "Flag" else one.name.lower(): one
        for one in enum
    }
    assert found == as_cpp


def test_constants_are_those_of_the_header() -> None:
    text = HEADER.read_text()
    constants = dict(re.findall(r"inline constexpr [\w:]+ k(\w+) = (\w+);", text))
    assert int(constants["Version"]) == layout.VERSION
    assert int(constants["HeaderBytes"]) == layout.HEADER_BYTES
    assert int(constants["RecordBytes"]) == layout.RECORD_BYTES
    assert int(constants["UnknownByte"], 0) == layout.UNKNOWN_BYTE
    assert int(constants["UnknownIndex"], 0) == layout.UNKNOWN_INDEX
    assert int(constants["UnknownCount"], 0) == layout.UNKNOWN_COUNT
    magic = re.search(r"kMagic\{(.*?)\}", text)
    assert magic
    assert "".join(re.findall(r"'(.)'", magic[1])).encode() == layout.MAGIC


def test_all_element_types_have_a_size() -> None:
    assert len(layout.DATATYPE_NAMES) == len(layout.DATATYPE_BYTES)
    assert np.all(np.isin(layout.DATATYPE_BYTES, [1, 2, 4, 8]))


@pytest.mark.parametrize(
    ("enum", "name", "expected"),
    [
        (layout.Function, "AllReduce", layout.Function.ALL_REDUCE),
        (layout.Function, "AlltoAll", layout.Function.ALLTOALL),
        (layout.Function, "0", layout.Function.OTHER),
        (layout.Function, "ALL_REDUCE", layout.Function.OTHER),
        (layout.Function, "All", layout.Function.OTHER),
        (layout.Algorithm, "Ring", layout.Algorithm.RING),
        (layout.Algorithm, "COLLNET_DIRECT", layout.Algorithm.COLLNET_DIRECT),
        (layout.Algorithm, "CollNetDirect", layout.Algorithm.COLLNET_DIRECT),
        (layout.Algorithm, "5", layout.Algorithm.NVLS_TREE),
        (layout.Algorithm, "05", layout.Algorithm.UNKNOWN),
        (layout.Algorithm, "", layout.Algorithm.UNKNOWN),
        (layout.Protocol, "Simple", layout.Protocol.SIMPLE),
        (layout.Protocol, "1", layout.Protocol.LL128),
        (layout.Protocol, "SIM_PLE", layout.Protocol.UNKNOWN),
    ],
)
def test_names_of_nccl(
    enum: type[layout.Function | layout.Algorithm | layout.Protocol], name: str, expected: IntEnum
) -> None:
    assert enum.of_nccl(name) is expected


def test_unknown_names_are_not_retained() -> None:
    tracemalloc.start()
    try:
        for number in range(20):
            for enum in (layout.Function, layout.Algorithm, layout.Protocol):
                enum.of_nccl(f"{number}{'x' * 100_000}")
        retained_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert retained_bytes < 50_000
