"""Facts of the area libraries, read from files in temporary folders."""

from pathlib import Path

import pytest

from busbw.doctor.facts.libraries import NCCL, read_libraries
from busbw.doctor.facts.process import read_user_configuration
from busbw.doctor.model import Unreadable
from busbw.doctor.sources.commands import Commands


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder in LD_LIBRARY_PATH, which is also the home folder. ldconfig lists no library; no wheel is installed."""
    write_ldconfig(tmp_path, "")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{tmp_path}/absent:{tmp_path}/lib:")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("LD_PRELOAD", raising=False)
    monkeypatch.delenv("NCCL_CONF_FILE", raising=False)
    monkeypatch.setattr("sys.path", [str(tmp_path / "site-packages")])
    (tmp_path / "lib").mkdir()
    return tmp_path


def write_ldconfig(folder: Path, lines: str) -> None:
    """Writes a program ldconfig that prints these lines."""
    (folder / "bin").mkdir(exist_ok=True)
    program = folder / "bin/ldconfig"
    program.write_text(f"#!/bin/sh\ncat <<'EOF'\n2 libs found in cache `/etc/ld.so.cache'\n{lines}\nEOF\n")
    program.chmod(0o755)


def write_nccl(path: Path, version: str) -> None:
    """Writes a file with the texts that NCCL's library holds."""
    content = b"\x7fELF\0" + f"NCCL version {version}+cuda12.9\0NCCL_IB_HCA\0NCCL_NEW\0".encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_version_and_variables_are_read_from_the_content(folder: Path) -> None:
    write_nccl(folder / "lib/libnccl.so.2.27.5", "2.27.5")
    (folder / "lib/libnccl.so.2").symlink_to("libnccl.so.2.27.5")
    facts = read_libraries(Commands().output)
    (library,) = facts.find(NCCL)
    assert library.path == "~/lib/libnccl.so.2.27.5"
    assert (library.version, library.origin) == ("2.27.5", "LD_LIBRARY_PATH")
    assert facts.variables is not None
    assert set(facts.variables) == {"NCCL_IB_HCA", "NCCL_NEW"}


def test_the_order_is_that_of_the_dynamic_linker(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("preload", "lib", "site-packages/nvidia/nccl/lib", "system"):
        write_nccl(folder / place / NCCL, f"2.2{len(place) % 10}.0")
    monkeypatch.setenv("LD_PRELOAD", f"{folder}/preload/{NCCL} other.so")
    lines = f"\t{NCCL} (libc6,x86-64) => {folder}/system/{NCCL}\n\t{NCCL} (libc6) => {folder}/lib32/{NCCL}"
    write_ldconfig(folder, lines)
    facts = read_libraries(Commands().output)
    assert [each.origin for each in facts.find(NCCL)] == ["LD_PRELOAD", "LD_LIBRARY_PATH", "wheel", "ldconfig"]


def test_names_of_plugins_alone_are_not_those_of_nccl(folder: Path) -> None:
    (folder / "lib/libnccl-net.so").write_bytes(b"\x7fELF OFI_NCCL_PROTOCOL\0")
    facts = read_libraries(Commands().output)
    assert [each.name for each in facts.libraries] == ["libnccl-net.so"]
    assert facts.variables is None


@pytest.mark.parametrize("content", [b"", b"\xff" * 100, b"NCCL version x"])
def test_a_file_that_is_no_library_has_no_version(folder: Path, content: bytes) -> None:
    (folder / "lib" / NCCL).write_bytes(content)
    assert [each.version for each in read_libraries(Commands().output).find(NCCL)] == [None]


def test_links_in_a_circle_and_folders_are_ignored(folder: Path) -> None:
    (folder / "lib/libcuda.so.1").symlink_to("libcuda.so.1")
    (folder / "lib" / NCCL).mkdir()
    assert not read_libraries(Commands().output).libraries


def test_a_machine_without_ldconfig_is_undecided(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder / "absent"))
    monkeypatch.setattr("busbw.doctor.sources.commands._FOLDERS", ())
    with pytest.raises(Unreadable, match="ldconfig"):
        read_libraries(Commands().output)


def test_the_users_file_is_read_without_secrets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_user_configuration().lines is None
    (folder / ".nccl.conf").write_text("# NCCL_DEBUG=INFO\n\nNCCL_IB_TC=106\nMY_TOKEN=abc\n")
    assert read_user_configuration().lines == ("# NCCL_DEBUG=INFO", "", "NCCL_IB_TC=106")
    assert read_user_configuration().path == "~/.nccl.conf"
    monkeypatch.setenv("NCCL_CONF_FILE", str(folder))
    with pytest.raises(Unreadable, match="Is a directory"):
        read_user_configuration()
