#!/usr/bin/env python3
"""Builds the documentation as a searchable site in build/site.

Usage: tools/docs_site.py [FOLDER]      (make docs installs mkdocs-material and calls it)

The pages are those of docs/. Files of the repository that they link to are copied to the site. The reference of
commands, flags, JSON schemas and Python types is generated: help texts and docstrings stay the only source.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from os.path import normpath, relpath
from pathlib import Path
from typing import Any

import yaml
from command_reference import CommandReference, command_references, engine_reference

import busbw
from busbw.errors import BusbwError

ROOT = Path(__file__).parents[1]
SETTINGS = ROOT / "tools" / "docs_site.yml"
FOLDERS = {
    "tutorials": "Tutorials",
    "guides": "Guides",
    "reference": "Reference",
    "explanation": "Explanation",
}
"""Folders of docs/ in the order of the navigation."""
PROJECT_FOLDER = Path("project")
"""Folder of the site for files outside docs/."""
STYLE = """\
/* Long words in code must not make a page wider than a phone. Tables scroll, so names in them stay whole. */
.md-typeset :not(pre) > code, .md-typeset h1, .md-typeset h2, .md-typeset h3 { overflow-wrap: anywhere; }
.md-typeset th code, .md-typeset td code { overflow-wrap: normal; word-break: normal; }
.md-typeset td:first-child code { white-space: nowrap; }
"""

_FENCE = re.compile(r"^(?P<indent> *)```.*?^(?P=indent)```[^\n]*$", re.DOTALL | re.MULTILINE)
"""A block of code."""
_FENCE_MARK = re.compile(r"^( *```\w+) needs-(\w+)$", re.MULTILINE)
"""First line of a block of commands that not every machine can run, such as ```sh needs-gpu."""
_TABLE_ROW = re.compile(r"^\|.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]+`")
_LINK = re.compile(r"(?P<start>\]\()(?P<target>[^)\s]+)\)")


def site_path(file: Path) -> Path:
    """Returns the path in the site's source of a file of the repository."""
    path = file.relative_to(ROOT)
    is_page = path.parts[0] == "docs"
    return path.relative_to("docs") if is_page else PROJECT_FOLDER / path


def copy_pages(source: Path) -> None:
    """Copies docs/ and all files that its pages link to, directly or through other pages.

    Args:
        source: Folder for the copies.

    Raises:
        FileNotFoundError: A link is broken, or leads to a folder without README.md.
    """
    files = [path for path in sorted((ROOT / "docs").rglob("*")) if path.is_file()]
    for file in files:  # the loop appends linked files
        copy = source / site_path(file)
        copy.parent.mkdir(parents=True, exist_ok=True)
        if file.suffix != ".md":
            shutil.copy(file, copy)
            continue
        text, targets = with_site_links(file.read_text(), file)
        copy.write_text(text)
        files += [target for target in targets if target not in files]


def with_site_links(text: str, page: Path) -> tuple[str, list[Path]]:
    """Returns the text of a page with the links of the site, and with tables and fences that the site can read.

    Args:
        text: Markdown of the page.
        page: File of the page.

    Returns:
        The text, and each linked file once.

    Raises:
        FileNotFoundError: A link is broken.
    """
    targets: dict[Path, None] = {}

    def replace(match: re.Match[str]) -> str:
        path, hash_sign, anchor = match["target"].partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match[0]
        target = _linked_file(page, path)
        targets[target] = None
        relative = relpath(site_path(target), site_path(page).parent)
        return f"{match['start']}{relative}{hash_sign}{anchor})"

    def rewrite_prose(prose: str) -> str:
        return _LINK.sub(replace, _readable_tables(prose))

    parts: list[str] = []
    prose_start = 0
    for fence in _FENCE.finditer(text):
        parts += [rewrite_prose(text[prose_start : fence.start()]), _readable_fence(fence[0])]
        prose_start = fence.end()
    parts.append(rewrite_prose(text[prose_start:]))
    return "".join(parts), list(targets)


def _linked_file(page: Path, path: str) -> Path:
    """Returns the file that a relative link leads to. A folder stands for its README.md."""
    target = Path(normpath(page.parent / path))
    if target.is_dir():
        target /= "README.md"
    if not target.is_file():
        raise FileNotFoundError(f"{page.relative_to(ROOT)}: the link to {path} is broken; correct it")
    return target


def _readable_tables(text: str) -> str:
    r"""Replaces `\|` in code of tables by `|`: GitHub needs the backslash, and Python-Markdown would show it."""
    return _TABLE_ROW.sub(lambda row: _CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), text)


def _readable_fence(fence: str) -> str:
    """Replaces the mark of a block by a title, because Python-Markdown knows no such mark."""
    return _FENCE_MARK.sub(lambda match: f'{match[1]} title="needs a {match[2].replace("gpu", "GPU")}"', fence)


def commands_page() -> str:
    """Returns the page of all commands of `busbw`."""
    return "\n".join(["# Commands", "", *_reference_lines(command_references())])


def flags_page() -> str:
    """Returns the page of the flags of the engine's programs.

    Raises:
        BusbwError: The engine is not found.
    """
    return "\n".join(["# Flags of the programs", "", *_reference_lines([engine_reference()], heading=False)])


def _reference_lines(references: Iterable[CommandReference], *, heading: bool = True) -> Iterator[str]:
    """Yields the lines of a page. `heading`: true for a heading per command, false for a heading per list."""
    for reference in references:
        if heading:
            yield from (f"## {reference.name}", "")
        yield from ("```text", *reference.usage, "```", "")
        for paragraph in reference.paragraphs:
            yield from (_plain(paragraph), "")
        for entry in reference.lists:
            if not heading:
                yield from (f"## {entry.heading}", "")
            first_column = "command" if entry.heading == "Commands" else "option"
            rows = ((f"`{names}`", _plain(text)) for names, text in entry.options)
            yield from _table((first_column, "meaning"), rows)
        for note in reference.notes:
            yield from (_plain(note), "")


def schema_page(title: str, schema: Mapping[str, Any]) -> str:
    """Returns the page of a JSON schema: a table of fields per type.

    Args:
        title: Heading of the page.
        schema: JSON schema with its types under `$defs`.
    """
    lines = [f"# {title}", ""]
    for name, definition in schema["$defs"].items():
        required = definition.get("required", [])
        lines += [f"## {name}", "", _plain(definition.get("description", "")), ""]
        rows = (
            (f"`{field}`", _type_text(content), _plain(_field_text(content, is_required=field in required)))
            for field, content in definition.get("properties", {}).items()
        )
        lines += _table(("field", "type", "meaning"), rows)
    return "\n".join(lines)


def _field_text(content: Mapping[str, Any], *, is_required: bool) -> str:
    default = "" if is_required else f"Default: {json.dumps(content.get('default'))}."
    return " ".join(filter(None, [content.get("description", ""), default]))


def _type_text(content: Mapping[str, Any]) -> str:
    """Returns the type of a field in words."""
    if "$ref" in content:
        name = content["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in content:
        return " or ".join(map(_type_text, content["anyOf"]))
    if "enum" in content:
        return ", ".join(f"`{json.dumps(value)}`" for value in content["enum"])
    if content.get("type") == "array":
        items = content.get("prefixItems", [])
        if not items and content.get("items"):
            items = [content["items"]]
        return f"list of {', '.join(map(_type_text, items))}" if items else "list"
    if content.get("type") == "object" and isinstance(content.get("additionalProperties"), dict):
        return f"object of {_type_text(content['additionalProperties'])}"
    return str(content.get("type", "any"))


def _table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    for row in (header, ("---",) * len(header), *rows):
        yield "| " + " | ".join(row) + " |"
    yield ""


def _plain(text: str) -> str:
    """Escapes text for Markdown outside of code, because `<`, `*`, `_`, `[` and `|` are plain text in help texts."""
    parts = " ".join(text.split()).split("`")
    for index in range(0, len(parts), 2):  # every second part is code
        parts[index] = re.sub(r"([*_\[\]|])", r"\\\1", parts[index]).replace("<", "&lt;")
    return "`".join(parts)


def python_page() -> str:
    """Returns the page of the Python API, which mkdocstrings fills from the docstrings. `load` comes first."""
    others = sorted({*busbw.__all__} - {"load", "__version__"})
    return "\n".join(["# Python API", "", *(f"::: busbw.api.{name}\n" for name in ("load", *others))])


def write_source(source: Path) -> None:
    """Writes the source of the site: copied and generated pages, and mkdocs.yml.

    Raises:
        FileNotFoundError: A link is broken.
        BusbwError: The engine is not found.
    """
    shutil.rmtree(source, ignore_errors=True)
    content = source / "content"
    copy_pages(content)
    generated = {"commands": commands_page(), "program-flags": flags_page(), "python-api": python_page()}
    for path in sorted((ROOT / "schema").glob("*.schema.json")):
        schema_name = path.name.partition(".")[0]
        generated[f"schema-{schema_name}"] = schema_page(f"JSON schema: {schema_name}", json.loads(path.read_text()))
    for name, text in generated.items():
        (content / "reference" / f"{name}.md").write_text(text)
    (content / "site.css").write_text(STYLE)
    settings = {"INHERIT": str(SETTINGS), "docs_dir": "content", "nav": _navigation(content)}
    (source / "mkdocs.yml").write_text(yaml.safe_dump(settings, sort_keys=False))


def _navigation(content: Path) -> list[str | dict[str, list[str]]]:
    """Returns the index, the folders with their pages, and the other pages of docs/."""
    folders = {
        title: [f"{folder}/{path.name}" for path in sorted((content / folder).glob("*.md"))]
        for folder, title in FOLDERS.items()
    }
    others = sorted(path.name for path in content.glob("*.md") if path.name != "README.md")
    index = [path.name for path in content.glob("README.md")]
    return [*index, *({title: pages} for title, pages in folders.items() if pages), *others]


def build_site(source: Path, site: Path) -> "subprocess.CompletedProcess[str]":
    """Builds the site from its source. The exit code is not 0 for any warning, such as a broken link or anchor."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean"]
    # Without this variable, mkdocs-material prints an advertisement of its successor.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(
        [*command, "--config-file", source / "mkdocs.yml", "--site-dir", site],
        env=environment,
        capture_output=True,  # --quiet would let warnings pass
        text=True,
        check=False,
    )


def main() -> int:
    """Writes the source and builds the site."""
    site = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT / "build" / "site"
    source = site.parent / f"{site.name}-source"
    try:
        write_source(source)
    except (FileNotFoundError, BusbwError) as error:
        print(error, file=sys.stderr)
        return 1
    done = build_site(source, site)
    if done.returncode == 0:
        print(f"{site}: python -m http.server --directory {relpath(site)} shows it with search")
    else:
        print(done.stdout + done.stderr, file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
