"""The documents are short: lines of the README, words of all pages, words of a sentence."""

from pathlib import Path

import pytest
from conftest import ROOT
from doc_pages import DOCS, PAGES, page_name, sentences, word_count

MAX_README_LINES = 120
MAX_SENTENCE_WORDS = 30
MAX_DOCS_WORDS = 25_000


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= MAX_README_LINES


def test_the_documents_are_short() -> None:
    words = {page_name(page): word_count(page.read_text()) for page in PAGES if page.is_relative_to(DOCS)}
    assert sum(words.values()) <= MAX_DOCS_WORDS, words


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_sentences_are_short(page: Path) -> None:
    long = [sentence for sentence in sentences(page.read_text()) if len(sentence.split()) > MAX_SENTENCE_WORDS]
    assert long == []


def test_words_are_tokens_with_a_letter_or_digit() -> None:
    assert word_count("| a | b-c |\n| --- | ---: |\n- 12 `x`\n```text\n") == 5


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
