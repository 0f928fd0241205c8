"""docs/architecture.svg: the layers of dependencies.toml."""

import sys
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))

from dependency_diagram import DEPENDENCIES, DIAGRAM, diagram, layers_of  # noqa: E402


def test_each_name_is_above_all_its_dependencies() -> None:
    for dependencies in msgspec.toml.decode(DEPENDENCIES.read_bytes()).values():
        layers = layers_of(dependencies)
        layer_by_name = {name: number for number, names in enumerate(layers) for name in names}
        assert sum(map(len, layers)) == len(layer_by_name)  # each name once
        for name, others in dependencies.items():
            assert all(layer_by_name[name] < layer_by_name[other] for other in others)


def test_layers_are_the_longest_paths() -> None:
    assert layers_of({"a": ["b", "d"], "b": ["c"], "e": []}) == [["a"], ["b"], ["c", "d", "e"]]


def test_the_diagram_is_up_to_date() -> None:
    text = diagram(msgspec.toml.decode(DEPENDENCIES.read_bytes()))
    assert DIAGRAM.read_text() == text, "run tools/dependency_diagram.py"
