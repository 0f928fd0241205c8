"""The documents are short: lines of the README, words of all pages, words of a sentence."""

from pathlib import Path

import pytest
from conftest import ROOT
from doc_pages import DOCS, REWRITTEN, page_name, sentences

MAX_README_LINES = 120
MAX_SENTENCE_WORDS = 30
MAX_DOCS_WORDS = 25_000
COUNTED = [page for page in REWRITTEN if page.is_relative_to(DOCS)]
"""Pages with counted words. All of docs/, once all are rewritten."""


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= MAX_README_LINES


def test_the_documents_are_short() -> None:
    words = {page_name(page): len(page.read_text().split()) for page in COUNTED}
    assert sum(words.values()) <= MAX_DOCS_WORDS, words


@pytest.mark.parametrize("page", REWRITTEN, ids=page_name)
def test_sentences_are_short(page: Path) -> None:
    long = [sentence for sentence in sentences(page.read_text()) if len(sentence.split()) > MAX_SENTENCE_WORDS]
    assert long == []


def test_sentences_are_found() -> None:
    text = "# A head\n\nOne `x y z` two.\nThree [four\nfive](page.md). Six: seven\n- eight\n- nine\n\n| a b | c |\n"
    assert list(sentences(text)) == [
        "A head",
        "One code two.",
        "Three four five.",
        "Six: seven",
        "eight",
        "nine",
        "a b",
        "c",
    ]
