"""An sshd of the tests' own on the loopback interface, which plays several hosts, and what its clients need.

`node1` to `node3` are the addresses 127.0.0.1 to 127.0.0.3; on `node3` every login shell prints something at first,
without an end of line.
"""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from polling import HANG_GUARD_S, free_port

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
_SEPARATION = Path("/run/sshd")
"""sshd wants this folder when root starts it; the system's own start script makes it."""


def skip_reason() -> str:
    """Names the missing program. Empty if sshd can run."""
    missing = [name for name in ("ssh", "ssh-keygen") if not shutil.which(name)] + ([] if SSHD else ["sshd"])
    return f"{', '.join(missing)} not installed (openssh-server, openssh-client)" if missing else ""


class PrivateSshd:
    """It runs from the start of a `with` to its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.client = folder / "client"

    def __enter__(self) -> "PrivateSshd":
        if os.geteuid() == 0:
            _SEPARATION.mkdir(mode=0o755, exist_ok=True)
        for key in ("host", "user", "other"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / key], check=True)
        self._write("authorized", (self.folder / "user.pub").read_text())
        public = (self.folder / "host.pub").read_text().strip()
        self._write("known", "".join(f"[127.0.0.{node}]:{self.port} {public}\n" for node in (1, 2, 3)))
        self._write("unknown", "")
        self._write(
            "server",
            f"Port {self.port}\n"
            + "".join(f"ListenAddress 127.0.0.{node}\n" for node in (1, 2, 3))
            + f"HostKey {self.folder}/host\n"
            + f"AuthorizedKeysFile {self.folder}/authorized\n"
            + "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            + "PidFile none\nMaxStartups 100\n"
            + "Match LocalAddress 127.0.0.3\n"
            + '  ForceCommand printf "noise\\nnoise without an end"; exec sh -c "$SSH_ORIGINAL_COMMAND"\n',
        )
        self._write(
            "client",
            "".join(f"Host node{node}\n  HostName 127.0.0.{node}\n" for node in (1, 2, 3))
            + f"Host *\n  Port {self.port}\n  IdentityFile {self.folder}/user\n  IdentitiesOnly yes\n"
            + f"  UserKnownHostsFile {self.folder}/known\n  StrictHostKeyChecking yes\n",
        )
        assert SSHD
        with (self.folder / "log").open("wb") as log:
            server = [SSHD, "-D", "-e", "-f", str(self.folder / "server")]
            self._process = subprocess.Popen(server, stderr=log, start_new_session=True)
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        for pid in [*self.sessions(), self._process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        self._process.wait()

    @property
    def ssh(self) -> str:
        """The ssh command that reaches it."""
        return f"ssh -F {self.client}"

    def write_for_hosts(self, addresses: Mapping[str, str]) -> tuple[list[str], str]:
        """Returns the commands of a server and of a client for hosts with networks of their own.

        Args:
            addresses: Address of each host, by its name.
        """
        assert SSHD
        lines = (self.folder / "server").read_text().splitlines(keepends=True)
        everywhere = [line for line in lines if not line.startswith("ListenAddress")]
        self._write("hosts-server", "".join(everywhere))
        self._write(
            "hosts-client",
            "".join(f"Host {name}\n  HostName {address}\n" for name, address in addresses.items())
            + f"Host *\n  Port {self.port}\n  IdentityFile {self.folder}/user\n  IdentitiesOnly yes\n"
            + f"  UserKnownHostsFile {self.folder}/hosts-known\n  StrictHostKeyChecking no\n",
        )
        return [SSHD, "-D", "-e", "-f", str(self.folder / "hosts-server")], f"ssh -F {self.folder}/hosts-client"

    def sessions(self) -> list[int]:
        """Its processes that each serve one connection."""
        return children_of(self._process.pid)

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o600)

    def _wait(self) -> None:
        end_s = time.monotonic() + HANG_GUARD_S
        while True:
            assert self._process.poll() is None, (self.folder / "log").read_text()
            with suppress(OSError), socket.create_connection(("127.0.0.3", self.port), timeout=1):
                return
            assert time.monotonic() < end_s, (self.folder / "log").read_text()
            time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, fields = path.read_text().rpartition(")")
            if int(fields.split()[1]) == pid:
                found.append(int(name.split(" ", 1)[0]))
    return found
