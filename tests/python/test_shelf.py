"""Are descriptions found by name and by file, and is everything else refused with what to do?"""

from pathlib import Path

import msgspec
import pytest

from busbw.errors import UsageError
from busbw.shelf import Shelf
from busbw.system import System


class Thing(msgspec.Struct, forbid_unknown_fields=True):
    weight_kg: float
    name: str = ""


@pytest.fixture
def shelf() -> Shelf[Thing]:
    return Shelf(
        "busbw.system",
        Thing,
        kind="thing",
        remedy_malformed="weigh it",
        remedy_unknown=lambda known: f"one of {len(known)}",
        finish=lambda thing, name: msgspec.structs.replace(thing, name=name),
    )


def test_a_file_is_named_after_itself(shelf: Shelf[Thing], tmp_path: Path) -> None:
    path = tmp_path / "anvil.toml"
    path.write_text("weight_kg = 50.0")
    shelf.all = {}
    assert shelf.find(str(path)) == Thing(50.0, "anvil")


def test_those_of_the_package_are_known_by_name() -> None:
    systems = Shelf("busbw.system", System, kind="system", remedy_malformed="", remedy_unknown=lambda _known: "")
    assert "h100-sxm" in systems.all
    assert systems.find("h100-sxm") is systems.all["h100-sxm"]


@pytest.mark.parametrize("content", [b"weight_kg = 'much'", b"weight_kg = 1\nheight_m = 2", b"\xff\xfe", b"["])
def test_what_is_something_else_is_refused(shelf: Shelf[Thing], tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "wrong.toml"
    path.write_bytes(content)
    shelf.all = {}
    with pytest.raises(UsageError, match=r"wrong.toml is no thing: .*; weigh it"):
        shelf.find(str(path))


def test_what_is_not_there_is_refused(shelf: Shelf[Thing], tmp_path: Path) -> None:
    shelf.all = {"one": Thing(1.0)}
    with pytest.raises(UsageError, match='there is no thing "two"; one of 1'):
        shelf.find("two")
    with pytest.raises(UsageError, match=r"cannot read .*none.toml: No such file"):
        shelf.find(str(tmp_path / "none.toml"))
