"""Fake commands of Slurm: shell scripts that log their calls and print a prepared output."""

import shlex
from pathlib import Path

COMMAND = """#!/bin/sh
name=${0##*/}
echo "$name $*" >>"$FAKE/asked"
code=0
[ ! -e "$FAKE/$name.says" ] || . "$FAKE/$name.says"
exit "$code"
"""


class FakeSlurm:
    """A folder of fake commands. $FAKE must be this folder when they run.

    `says` prepares the output of a command, and `asked` returns its calls.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "asked").touch()
        for name in ("sbatch", "squeue", "scontrol", "scancel", "sinfo"):
            (folder / name).write_text(COMMAND)
            (folder / name).chmod(0o755)

    def says(self, name: str, text: str = "", *, error: str = "", code: int = 0) -> None:
        """Sets stdout, stderr and exit code of a command. The replacement is atomic for commands that run meanwhile."""
        script = f"printf %s {shlex.quote(error)} >&2\nprintf %s {shlex.quote(text)}\ncode={code}\n"
        partial = self.folder / f".{name}.says"
        partial.write_text(script)
        partial.replace(self.folder / f"{name}.says")

    def forgets(self) -> None:
        """Lets squeue and scontrol report the job as unknown, as Slurm does some time after its end."""
        self.says("squeue", error="slurm_load_jobs error: Invalid job id specified\n", code=1)
        self.says("scontrol", error="slurm_load_jobs error: Invalid job id specified\n", code=1)

    def asked(self, name: str) -> list[str]:
        """Returns the command lines of all calls of a command."""
        return [line for line in (self.folder / "asked").read_text().splitlines() if line.startswith(f"{name} ")]
