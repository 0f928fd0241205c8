"""Parses invalid JSON: bare nan and inf, and documents that end early, for example because the run was killed.

Every object that is open at the end of the document gets the key CUT, so that a reader can skip incomplete rows.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from busbw.errors import UsageError

CUT = "\0cut"
"""Key of unfinished objects. Its value is true."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|"', re.DOTALL)
_MAX_DEPTH = 100


class MalformedJsonError(ValueError):
    """The text is invalid even for the tolerant parser."""


def decode(data: bytes) -> Any:
    """Returns the value of a document.

    Raises:
        MalformedJsonError: The text is invalid.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Parser(data.decode("utf-8", errors="replace")).parse()


def decode_part(data: bytes, name: str) -> Any:
    """Returns the value of a part of a document. `name`: name of the log for errors.

    Raises:
        UsageError: The text is invalid even for the tolerant parser.
    """
    try:
        return decode(data)
    except MalformedJsonError as error:
        raise UsageError(
            f"{name} is not valid JSON: {error}", remedy="pass the file unchanged, as the program wrote it"
        ) from error


class _Parser:
    """Parser with a stack of open containers."""

    def __init__(self, text: str) -> None:
        self._tokens: Iterator[re.Match[str]] = _TOKEN.finditer(text)

    def parse(self) -> Any:
        """Returns the value of the document."""
        root: list[Any] = []  # holds the value
        stack: list[Any] = [root]
        keys: list[str | None] = [None]  # for each container in the stack: the key that waits for its value
        for match in self._tokens:
            token = match.group()
            if token in "{[":
                if len(stack) > _MAX_DEPTH:
                    raise MalformedJsonError("the nesting is too deep")
                child: Any = {} if token == "{" else []
                self._put(stack[-1], keys, child)
                stack.append(child)
                keys.append(None)
            elif token in "}]":
                if len(stack) == 1 or isinstance(stack[-1], dict) != (token == "}"):
                    raise MalformedJsonError(f"'{token}' has no opening bracket")
                stack.pop()
                keys.pop()
                if len(stack) == 1:
                    return root[0]
            elif token == '"':
                break  # an unterminated string
            elif token not in ",:":
                self._put_scalar(token, stack[-1], keys)
        for container in stack[1:]:
            if isinstance(container, dict):
                container[CUT] = True
        if not root:
            raise MalformedJsonError("it has no value")
        return root[0]

    def _put_scalar(self, token: str, container: Any, keys: list[str | None]) -> None:
        value: Any
        if token[0] == '"':
            value = _parse_string(token)
            if isinstance(container, dict) and keys[-1] is None:
                keys[-1] = value
                return
        else:
            value = _parse_word(token)
        self._put(container, keys, value)

    @staticmethod
    def _put(container: Any, keys: list[str | None], value: Any) -> None:
        if isinstance(container, list):
            container.append(value)
        elif keys[-1] is None:
            raise MalformedJsonError("a key is missing before a value")
        else:
            container[keys[-1]] = value
            keys[-1] = None


def _parse_string(token: str) -> str:
    try:
        return str(msgspec.json.decode(token.encode("utf-8", errors="replace")))
    except msgspec.DecodeError:
        return token[1:-1]


def _parse_word(token: str) -> Any:
    """Returns a number, a Boolean or None; None also for nan and inf."""
    if token in ("true", "false"):
        return token == "true"
    if token.lower().lstrip("+-") in ("null", "none", "nan", "inf", "infinity"):
        return None
    try:
        return int(token) if len(token) < 20 else float(token)
    except ValueError:
        pass
    try:
        return float(token)
    except ValueError:
        raise MalformedJsonError(f'"{token[:40]}" is not a value') from None
