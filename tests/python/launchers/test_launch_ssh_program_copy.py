"""A copy of the program on a host: verified, private, and removed; a shell plays ssh and the host."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from busbw.cli.main import main
from busbw.errors import BusbwError
from busbw.launchers import LaunchCallbacks
from busbw.launchers.ssh import program_copy
from busbw.launchers.ssh.program_copy import ProgramCopy


class Host:
    """A folder that plays a host, an ssh that runs its last word there, and the messages of the launcher."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "host"
        self.folder.mkdir()
        self.ssh = folder / "ssh"
        self.connections = folder / "connections"
        self.ssh.write_text(
            f'#!/bin/sh\necho "$1" >>{self.connections}\n'
            'if [ "$1" = down ]; then echo "ssh: connect to host down: No route to host" >&2; exit 255; fi\n'
            'for last; do :; done\nexec sh -c "$last"\n'
        )
        self.ssh.chmod(0o755)
        self.source = folder / "program"
        self.source.write_bytes(bytes(range(256)) * 1000)
        self.errors: list[bytes] = []
        self.callbacks = LaunchCallbacks(
            lambda _line: None, lambda: None, on_error=lambda line, _host: self.errors.append(line)
        )

    @contextmanager
    def copies(self, *hosts: str, sha256: str = "") -> Iterator[list[Path]]:
        """Yields the path of the copy on each host."""
        sha256 = sha256 or hashlib.sha256(self.source.read_bytes()).hexdigest()
        copied = ProgramCopy(self.source, sha256, str(self.folder))
        folders = [copied.folder("job", node) for node in range(len(hosts))]
        copies = [
            program_copy.copy_command([str(self.ssh), name], copied, f"{folder}/all_reduce_perf", name)
            for name, folder in zip(hosts, folders, strict=True)
        ]
        removals = [
            program_copy.removal_command([str(self.ssh), name], folder, name)
            for name, folder in zip(hosts, folders, strict=True)
        ]
        with program_copy.copies_on_hosts(copies, removals, self.callbacks):
            yield [Path(folder) / "all_reduce_perf" for folder in folders]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_the_copy_is_equal_executable_and_private(host: Host) -> None:
    with host.copies("node1") as (path,):
        assert path.read_bytes() == host.source.read_bytes()
        assert path.stat().st_mode & 0o777 == 0o700
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_copy_with_another_checksum_is_an_error(host: Host) -> None:
    error = r"node1: cannot copy the program \(the copy has another checksum\); choose"
    with pytest.raises(BusbwError, match=error), host.copies("node1", sha256="0" * 64):
        pass
    assert list(host.folder.iterdir()) == []


def test_an_existing_folder_is_not_used(host: Host) -> None:
    (host.folder / "job-0").mkdir()
    with pytest.raises(BusbwError, match=r"cannot copy the program .*File exists"), host.copies("node1"):
        pass


def test_the_copy_is_removed_and_a_missing_one_is_no_error(host: Host) -> None:
    with host.copies("node1", "node2") as paths:
        assert all(path.exists() for path in paths)
        shutil.rmtree(paths[1].parent)
    assert list(host.folder.iterdir()) == []
    assert host.errors == []


def test_only_hosts_on_which_the_copy_began_are_connected_again(host: Host) -> None:
    with pytest.raises(BusbwError, match="down: ssh cannot connect"), host.copies("node1", "down"):
        pass
    assert sorted(host.connections.read_text().split()) == ["down", "node1", "node1"]
    assert list(host.folder.iterdir()) == []
    assert host.errors == []


def test_no_host_is_connected_again_if_none_was_reached(host: Host) -> None:
    with pytest.raises(BusbwError, match="down: ssh cannot connect"), host.copies("down"):
        pass
    assert host.connections.read_text().split() == ["down"]
    assert host.errors == []


def test_a_copy_that_may_remain_is_named(host: Host) -> None:
    host.ssh.write_text("#!/bin/sh\nexit 255\n")
    command = program_copy.removal_command([str(host.ssh), "node1"], "/tmp/job-0", "node1")
    program_copy.remove_from_hosts([command], host.callbacks)
    assert host.errors == [b"busbw: the copy of the program on node1 may remain; run there: rm -rf /tmp/job-0\n"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--copy-to", "tmp"], '--copy-to "tmp" is not an absolute folder'),
        (["--copy-to", "/a b"], '--copy-to "/a b" is not an absolute folder'),
        (["--copy-to", "/tmp;true"], "is not an absolute folder"),
        (["--copy-to", "/tmp", "--program-path", "/x"], "--copy-to and --program-path exclude each other"),
    ],
)
def test_usage_errors(options: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["launch", "ssh", "--dry-run", "--hosts", "a", *options, "--", "all_reduce"]) == 2
    assert sentence in capsys.readouterr().err


def test_a_dry_run_shows_the_copy_and_its_removal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "busbw-engine"
    program.write_bytes(b"engine")
    program.chmod(0o755)
    monkeypatch.setenv("BUSBW_PROGRAMS", str(tmp_path))
    options = ["--hosts", "a,b", "--ssh", "/nowhere/ssh", "--copy-to", "/tmp"]
    assert main(["launch", "ssh", "--dry-run", *options, "--", "all_reduce"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("# copy of the program to every host:\n/bin/sh -c")
    assert hashlib.sha256(b"engine").hexdigest() in text
    assert text.count("rm -rf /tmp/busbw-all-reduce-") == 4  # by the script of each host, and at the end
    assert os.fspath(program) in text
