"""Draws docs/architecture.svg: the directories in layers, from the allowed dependencies of dependencies.toml.

Usage: python tools/dependency_diagram.py

A directory is in the lowest layer above all directories that it depends on. So all dependencies point downwards.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parents[1]
DEPENDENCIES = ROOT / "tests" / "python" / "project" / "dependencies.toml"
DIAGRAM = ROOT / "docs" / "architecture.svg"

_TITLES = {"cpp": "C++", "python": "Python (src/busbw)"}
_WIDTH, _MARGIN, _LINE, _PADDING = 1000, 16, 18, 8
_CHARACTER_WIDTH = 7.3
"""Width of a character of the font, in pixels."""


def layers_of(dependencies: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Returns the names of each layer, the top layer first."""

    @cache
    def height(name: str) -> int:
        return 1 + max((height(other) for other in dependencies.get(name, ())), default=-1)

    layers: dict[int, list[str]] = {}
    for name in sorted({*dependencies, *(other for others in dependencies.values() for other in others)}):
        layers.setdefault(height(name), []).append(name)
    return [layers[number] for number in sorted(layers, reverse=True)]


def diagram(languages: Mapping[str, Mapping[str, Sequence[str]]]) -> str:
    """Returns the drawing: a title for each language, and below it a box for each layer."""
    parts: list[str] = []
    y = _MARGIN
    for language, dependencies in languages.items():
        y += _LINE
        parts.append(f'<text x="{_MARGIN}" y="{y}" font-weight="bold">{escape(_TITLES[language])}</text>')
        y += _PADDING
        for names in layers_of(dependencies):
            lines = _wrap(names)
            height = len(lines) * _LINE + _PADDING
            box = f'x="{_MARGIN}" y="{y}" width="{_WIDTH - 2 * _MARGIN}" height="{height}"'
            parts.append(f'<rect {box} fill="#eef3f8" stroke="#8aa"/>')
            for number, line in enumerate(lines, start=1):
                text_y = y + number * _LINE - 2
                parts.append(f'<text x="{_MARGIN + _PADDING}" y="{text_y}">{escape(line)}</text>')
            y += height + _PADDING
    size = f'width="{_WIDTH}" height="{y + _MARGIN}" viewBox="0 0 {_WIDTH} {y + _MARGIN}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="monospace" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


def _wrap(names: Sequence[str]) -> list[str]:
    """Returns lines of names that fit into the width of a box."""
    max_length = int((_WIDTH - 2 * _MARGIN - 2 * _PADDING) / _CHARACTER_WIDTH)
    lines = [names[0]]
    for name in names[1:]:
        longer = f"{lines[-1]} · {name}"
        if len(longer) <= max_length:
            lines[-1] = longer
        else:
            lines.append(name)
    return lines


if __name__ == "__main__":
    DIAGRAM.write_text(diagram(msgspec.toml.decode(DEPENDENCIES.read_bytes())))
