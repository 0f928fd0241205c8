"""Stand-ins for Slurm's commands."""

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
    """Commands that say what they were told to say, and write down how they were asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "asked").touch()
        for name in ("sbatch", "squeue", "scontrol", "scancel", "sinfo"):
            (folder / name).write_text(COMMAND)
            (folder / name).chmod(0o755)

    def says(self, name: str, text: str = "", *, error: str = "", code: int = 0) -> None:
        """One file, put there whole: a command that runs meanwhile says what was before or what comes now."""
        said = f"printf %s {shlex.quote(error)} >&2\nprintf %s {shlex.quote(text)}\ncode={code}\n"
        unseen = self.folder / f".{name}.says"
        unseen.write_text(said)
        unseen.replace(self.folder / f"{name}.says")

    def forgets(self) -> None:
        self.says("squeue", error="slurm_load_jobs error: Invalid job id specified\n", code=1)
        self.says("scontrol", error="slurm_load_jobs error: Invalid job id specified\n", code=1)

    def asked(self, name: str) -> list[str]:
        return [line for line in (self.folder / "asked").read_text().splitlines() if line.startswith(f"{name} ")]
