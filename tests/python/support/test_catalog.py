"""Tests of catalogs: descriptions by name and by file, and errors with a remedy."""

import os
from pathlib import Path

import msgspec
import pytest

from busbw.errors import UsageError
from busbw.support.catalog import Catalog
from busbw.system import System


class Thing(msgspec.Struct, forbid_unknown_fields=True):
    weight_kg: float
    name: str = ""


@pytest.fixture
def catalog() -> Catalog[Thing]:
    return Catalog(
        "busbw.system",
        Thing,
        kind="thing",
        remedy_malformed="weigh it",
        remedy_unknown=lambda known: f"one of {len(known)}",
        finish=lambda thing, name: msgspec.structs.replace(thing, name=name),
    )


def test_a_file_is_named_after_itself(catalog: Catalog[Thing], tmp_path: Path) -> None:
    path = tmp_path / "anvil.toml"
    path.write_text("weight_kg = 50.0")
    catalog.all = {}
    assert catalog.find(str(path)) == Thing(50.0, "anvil")


def test_descriptions_of_the_package_are_found_by_name() -> None:
    systems = Catalog("busbw.system", System, kind="system", remedy_malformed="", remedy_unknown=lambda _known: "")
    assert "h100-sxm" in systems.all
    assert systems.find("h100-sxm") is systems.all["h100-sxm"]


@pytest.mark.parametrize(
    "content", [b"weight_kg = 'much'", b"weight_kg = 1\nheight_m = 2", b"\xff\xfe", b"[", b"a = " + b"[" * 20_000]
)
def test_malformed_content_is_refused(catalog: Catalog[Thing], tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "wrong.toml"
    path.write_bytes(content)
    catalog.all = {}
    with pytest.raises(UsageError, match=r"wrong.toml is not a valid thing: .*; weigh it"):
        catalog.find(str(path))


def test_an_unknown_name_is_refused(catalog: Catalog[Thing], tmp_path: Path) -> None:
    catalog.all = {"one": Thing(1.0)}
    with pytest.raises(UsageError, match='there is no thing "two"; use one of 1'):
        catalog.find("two")
    with pytest.raises(UsageError, match='there is no thing "two"; use here, one of 1'):
        catalog.find("two", other_values=("here",))
    with pytest.raises(UsageError, match=r"cannot read .*none.toml: No such file"):
        catalog.find(str(tmp_path / "none.toml"))


def test_pipes_and_endless_files_are_refused(catalog: Catalog[Thing], tmp_path: Path) -> None:
    catalog.all = {}
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    endless = tmp_path / "endless.toml"
    endless.symlink_to("/dev/zero")
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * 2**20 + b"\n")
    for path, reason in [(pipe, "not a regular file"), (endless, "not a regular file"), (large, "larger than 1 MiB")]:
        with pytest.raises(UsageError, match=rf"cannot read .*{path.name}: .*{reason}"):
            catalog.find(str(path))
