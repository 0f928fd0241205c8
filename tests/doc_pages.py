"""The documents, and their text without markup."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(r"^```.*?^```[ \t]*$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"`[^`\n]+`")
_COMMENT = re.compile(r"<!--.*?-->|<[^>\n]+>", re.DOTALL)
_NEW_PARAGRAPH = re.compile(r"^\s*([-*]|\d+\.|#+|>)\s+|^\s*$")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def page_name(page: Path) -> str:
    """Returns the path of a page in the repository."""
    return str(page.relative_to(ROOT))


def word_count(text: str) -> int:
    """Returns the tokens with a letter or digit: borders of tables and code fences are not read as words."""
    return sum(any(character.isalnum() for character in token) for token in text.split())


def sentences(text: str) -> Iterator[str]:
    """Yields the sentences of a page: of paragraphs, headings, list items and table cells. Inline code is one word."""
    prose = _COMMENT.sub("", _CODE.sub("code", _LINK.sub(r"\1", _FENCE.sub("\n", text))))
    paragraph: list[str] = []
    for line in [*prose.splitlines(), ""]:
        is_row = line.startswith("|")
        if is_row or _NEW_PARAGRAPH.match(line):
            yield from _split(" ".join(paragraph))
            paragraph = []
        if is_row:
            for cell in line.split("|"):
                yield from _split(cell)
        else:
            paragraph.append(_NEW_PARAGRAPH.sub("", line))


def _split(paragraph: str) -> Iterator[str]:
    for sentence in _SENTENCE_END.split(paragraph):
        if sentence.strip():
            yield " ".join(sentence.split())
