"""Machine types: does every value name its source, is every fault of a file named, and is everything shown?"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from busbw import system as expectations
from busbw.cli.launch.machine_types import machine_types as command
from busbw.cli.main import main
from busbw.errors import UsageError
from busbw.launchers.machine_types.machine_type import MachineType, built_in_types, load
from busbw.support.json_output import SCHEMA_VERSION

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "src" / "busbw" / "launchers" / "machine_types"
GOLDEN = ROOT / "tests" / "golden" / "launch" / "systems"

# The kinds of machine that people ask for, by the names that they type.
ASKED_FOR = {
    "p4d.24xlarge": (8, "4 x 100 Gb/s"),
    "p4de.24xlarge": (8, "4 x 100 Gb/s"),
    "p5.48xlarge": (8, "32 x 100 Gb/s"),
    "p5en.48xlarge": (8, "16 x 200 Gb/s"),
    "p6-b200.48xlarge": (8, "8 x 400 Gb/s"),
    "nd-a100-v4": (8, "8 x 200 Gb/s"),
    "nd-h100-v5": (8, "8 x 400 Gb/s"),
    "nc-v3": (4, ""),
    "hgx-h100": (8, "8 x 400 Gb/s"),
    "hgx-h800": (8, "8 x 400 Gb/s"),
    "hgx-h200": (8, "8 x 400 Gb/s"),
    "a3-high": (8, "4 x 200 Gb/s"),
    "a3-mega": (8, "8 x 200 Gb/s"),
    "gb200-nvl72": (4, "4 x 400 Gb/s"),
    "host": (None, ""),
}

SMALL = """
title = "Ours"
expectation = "h100-sxm"
gpus_per_node = { value = 8, source = "rack" }
topology_file = { path = "/opt/topo.xml", source = "rack" }
[sources]
rack = "label on the rack"
[[environment]]
name = "NCCL_SOCKET_IFNAME"
value = "eth0"
reason = "the others are storage"
source = "rack"
"""


def shown(*arguments: str, width: int = 80) -> str:
    result = CliRunner(env={"COLUMNS": str(width)}).invoke(command, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def values_with_source(value: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every table of a description that says something, with the place where it stands."""
    if isinstance(value, dict):
        if "source" in value:
            yield where, value
        for key, item in value.items():
            yield from values_with_source(item, f"{where}.{key}")
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from values_with_source(item, f"{where}[{index}]")


def test_every_kind_of_machine_is_there() -> None:
    assert list(built_in_types()) == sorted(ASKED_FOR)
    assert {name: (system.gpus_per_node and system.gpus_per_node.value, system.nics_text) for name, system in
            built_in_types().items()} == ASKED_FOR  # fmt: skip


def test_the_files_lie_in_one_place() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} == set(built_in_types())


@pytest.mark.parametrize("name", sorted(ASKED_FOR))
def test_every_value_names_a_source_that_can_be_opened(name: str) -> None:
    text = msgspec.toml.decode((FOLDER / f"{name}.toml").read_bytes())
    sources = text.pop("sources", {})
    told = set(text) - {"title", "aliases", "expectation", "notes"}
    sourced = {re.split(r"[.\[]", where.lstrip("."))[0] for where, _ in values_with_source(text)}
    assert sourced == told
    for where, value in values_with_source(msgspec.to_builtins(load(name))):
        assert value["source"] in sources.values(), where
        assert re.search(r"https://[^ ]+", value["source"]), where


@pytest.mark.parametrize("name", sorted(set(ASKED_FOR) - {"host"}))
def test_the_expectation_exists_and_is_of_the_same_machine(name: str) -> None:
    system = load(name)
    described = expectations.find(system.system or "")
    assert system.gpus_per_node is not None
    assert described.ranks_per_node == system.gpus_per_node.value


def test_no_name_and_no_alias_means_two_machines() -> None:
    words = [word.lower() for system in built_in_types().values() for word in [system.name, *system.aliases]]
    assert len(words) == len(set(words))
    for system in built_in_types().values():
        for word in [system.name, *system.aliases]:
            assert load(word) is load(word.upper()) is load(word.lower()) is system


def test_devices_agree_with_the_node() -> None:
    for system in built_in_types().values():
        asked = {resource.name: resource.count for resource in system.resources}
        if "nvidia.com/gpu" in asked:
            assert system.gpus_per_node is not None
            assert asked["nvidia.com/gpu"] == system.gpus_per_node.value
        if "vpc.amazonaws.com/efa" in asked:
            assert system.nics_per_node is not None
            assert asked["vpc.amazonaws.com/efa"] == system.nics_per_node.value
        # Kubernetes refuses a pod with huge pages that asks for neither memory nor processors.
        assert system.huge_pages is None or system.memory is not None


def test_variables_are_environment_tuning_and_the_topology_file() -> None:
    variables = load("nd-h100-v5").variables
    assert variables["NCCL_TOPO_FILE"] == "/opt/microsoft/ndv5/topo.xml"
    assert variables["NCCL_IB_PCI_RELAXED_ORDERING"] == "1"
    assert variables["NCCL_IGNORE_CPU_AFFINITY"] == "1"
    assert load("host").variables == {}


def test_a_file_of_ones_own_is_read(tmp_path: Path) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(SMALL)
    system = load(str(path))
    assert (system.name, system.variables) == (
        "ours",
        {"NCCL_SOCKET_IFNAME": "eth0", "NCCL_TOPO_FILE": "/opt/topo.xml", "BUSBW_SYSTEM": "h100-sxm"},
    )
    assert {value["source"] for _, value in values_with_source(msgspec.to_builtins(system))} == {"label on the rack"}


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (', source = "rack" }', " }", ["missing required field `source`", "$.gpus_per_node"]),
        ('value = 8, source = "rack"', 'value = 8, source = "rumour"', ["gpus_per_node", "rumour", "[sources]"]),
        ('value = 8, source = "rack"', 'value = 8, source = ""', ["$.gpus_per_node.source"]),
        ("value = 8", 'value = "8"', ["$.gpus_per_node.value", "int"]),
        ("value = 8", "value = 0", ["$.gpus_per_node.value", ">= 1"]),
        ("title", "tilte", ["unknown field `tilte`"]),
        ("[sources]", "[[resources]]\nname = 'gpu'\ncount = 1\nsource = 'rack'\n[sources]", ["$.resources[0].name"]),
        ("[sources]", "color = 'red'\n[sources]", ["unknown field `color`"]),
        ('rack = "label', 'talk = "hearsay"\nrack = "label', ["no value uses the source talk"]),
        ("NCCL_SOCKET_IFNAME", "nccl ifname", ["$.environment[0].name"]),
        ("NCCL_SOCKET_IFNAME", "NCCL_TOPO_FILE", ["sets NCCL_TOPO_FILE twice"]),
        ('value = "eth0"', 'value = "a\\u001b[2J"', ["$.environment[0].value"]),
        ('value = "eth0"', 'value = "a\u009b2J"', ["$.environment[0].value"]),
        ('value = "eth0"', 'value = "a\u202eb"', ["$.environment[0].value"]),
        ("NCCL_SOCKET_IFNAME", "BUSBW_RANK", ["sets BUSBW_RANK, which the launcher sets"]),
        ('"/opt/topo.xml"', '"topo.xml"', ["$.topology_file.path"]),
        ('reason = "the others are storage"', "", ["missing required field `reason`"]),
        ("title = ", "title = = ", ["ours.toml"]),
    ],
)
def test_a_fault_is_named_with_file_and_key(tmp_path: Path, before: str, after: str, says: list[str]) -> None:
    assert before in SMALL
    path = tmp_path / "ours.toml"
    path.write_text(SMALL.replace(before, after, 1))
    with pytest.raises(UsageError) as refused:
        load(str(path))
    for words in ["ours.toml", *says]:
        assert words.lower() in str(refused.value).lower()
    assert "\n" not in str(refused.value)
    assert refused.value.remedy


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_an_expectation_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    path = tmp_path / "ours.toml"
    path.write_text(SMALL.replace("h100-sxm", "x9"))
    assert main(["launch", "machine-types", str(path), *more]) == 2
    assert 'ours: expectation: there is no system "x9"' in capsys.readouterr().err


def test_nothing_in_a_files_name_controls_the_terminal(tmp_path: Path) -> None:
    path = tmp_path / "ours\x1b[2J.toml"
    path.write_text(SMALL)
    assert load(str(path)).name == "ours?[2J"


def test_an_unknown_name_is_answered_with_those_that_are_known() -> None:
    with pytest.raises(UsageError, match=r'no machine type "p9\.metal"') as refused:
        load("p9.metal")
    assert all(name in str(refused.value) for name in ASKED_FOR)


@pytest.mark.parametrize("width", [80, 140])
def test_the_table(width: int) -> None:
    check_golden(f"table-{width}.txt", shown(width=width))


@pytest.mark.parametrize("name", ["p5.48xlarge", "nd-a100-v4", "gb200-nvl72", "host"])
def test_one_machine_with_its_sources(name: str) -> None:
    text = shown(name)
    check_golden(f"{name}.txt", text)
    above, _, below = text.partition("\nsources\n")
    cited, listed = set(re.findall(r"\[\d+\]", above)), set(re.findall(r"^  (\[\d+\])", below, flags=re.MULTILINE))
    assert cited == listed


def test_no_line_is_wider_than_the_terminal_but_for_what_cannot_be_broken() -> None:
    for name in ASKED_FOR:
        for line in shown(name).partition("\nsources\n")[0].splitlines():
            assert len(line) <= 80 or " " not in line.strip(), line


def test_the_command_that_says_what_to_expect_names_the_nics_only_where_they_differ() -> None:
    assert "--system h100-sxm --nics 4x200\n" in shown("a3-high")
    assert "--system h100-sxm\n" in shown("nd-h100-v5")


def test_it_is_a_command_of_launch(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "machine-types", "p5"]) == 0
    assert capsys.readouterr().out.startswith("p5.48xlarge: ")
    assert main(["launch", "machine-types", "p9.metal"]) == 2
    assert capsys.readouterr().err.startswith('busbw: there is no machine type "p9.metal"; ')


def test_json_holds_everything() -> None:
    lines = [json.loads(line) for line in shown("--json").splitlines()]
    assert [line["name"] for line in lines] == list(built_in_types())
    for line in lines:
        assert line.pop("schema_version") == SCHEMA_VERSION
        assert msgspec.convert(line, MachineType) == load(line["name"])


def check_golden(name: str, text: str) -> None:
    assert text == (GOLDEN / name).read_text()
