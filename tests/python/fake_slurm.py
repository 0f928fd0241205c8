"""Stand-ins for Slurm's commands."""

from pathlib import Path

COMMAND = """#!/bin/sh
echo "$(basename "$0") $*" >>"$FAKE/asked"
cat "$FAKE/$(basename "$0").err" >&2 2>/dev/null
cat "$FAKE/$(basename "$0").out" 2>/dev/null
exit "$(cat "$FAKE/$(basename "$0").code" 2>/dev/null || echo 0)"
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
        (self.folder / f"{name}.out").write_text(text)
        (self.folder / f"{name}.err").write_text(error)
        (self.folder / f"{name}.code").write_text(str(code))

    def forgets(self) -> None:
        self.says("squeue", error="slurm_load_jobs error: Invalid job id specified\n", code=1)
        self.says("scontrol", error="slurm_load_jobs error: Invalid job id specified\n", code=1)

    def asked(self, name: str) -> list[str]:
        return [line for line in (self.folder / "asked").read_text().splitlines() if line.startswith(f"{name} ")]
