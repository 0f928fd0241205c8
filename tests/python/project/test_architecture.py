"""Architecture rules: which part may include which, where time is read, where a library may be used.

The dependencies are those of docs/architecture.md. A new part must be added here before anything may include it.
"""

import ast
import re
from keyword import iskeyword
from pathlib import Path

import pytest

from busbw.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[3]

# Allowed includes of each folder of the engine and of the fast path besides itself, from the top layer down. A name
# with a dot is a file, any other a folder without its subfolders.
ENGINE_DEPENDENCIES: dict[str, set[str]] = {
    "main": {
        "backends/mpi",
        "backends/nccl",
        "collectives",
        "options",
        "os",
        "output",
        "rendezvous/world",
        "run",
        "support",
    },
    "run": {
        "backends",
        "backends/host",
        "backends/host/memory",
        "backends/host/sockets",
        "backends/mpi",
        "backends/nccl",
        "collectives",
        "measure",
        "options",
        "os",
        "output",
        "rendezvous",
        "rendezvous/team",
        "rendezvous/world",
        "support",
        "values",
        "watch",
    },
    "watch": {"measure", "os", "rendezvous/team", "support"},
    "backends/host/memory": {"backends", "backends/host", "rendezvous/team"},
    "backends/host/sockets": {"backends", "backends/host", "os", "rendezvous/team", "support", "values"},
    "backends/mpi": {
        "backends",
        "backends/host",
        "os",
        "rendezvous/team",
        "rendezvous/world",
        "support",
        "values",
        "verify",
    },
    "backends/nccl/cuda": {
        "backends",
        "backends/nccl",
        "backends/nccl/kernels",
        "os",
        "rendezvous/team",
        "support",
        "values",
        "verify",
    },
    "measure": {"backends", "collectives", "rendezvous/team", "values", "verify"},
    "options": {"collectives", "os", "support", "values"},
    "backends/host": {"backends", "rendezvous/team", "support", "values", "verify"},
    "backends/nccl": {"backends", "os", "rendezvous/team", "support", "values"},
    "collectives": {"backends/backend.hpp", "support", "values"},
    "rendezvous": {"os", "rendezvous/store", "rendezvous/team", "rendezvous/world", "support"},
    "backends": {"rendezvous/team", "support", "values", "verify"},
    "backends/nccl/kernels": {"values", "verify"},
    "rendezvous/store": {"os", "rendezvous/team", "support", "values"},
    "output": {"support", "values"},
    "rendezvous/team": {"support", "values"},
    "rendezvous/world": {"os", "support", "values"},
    "verify": {"support", "values"},
    "os": {"support"},
    "values": {"support"},
    "support": set(),
    "fastpath/exports": {
        "fastpath/choice",
        "fastpath/communicator",
        "fastpath/forward",
        "fastpath/nccl",
        "os",
        "support",
    },
    "fastpath/communicator": {
        "fastpath/choice",
        "fastpath/device",
        "fastpath/nccl",
        "fastpath/peers",
        "fastpath/schedule",
        "fastpath/verify",
        "os",
        "support",
    },
    "fastpath/verify": {"fastpath/choice", "fastpath/device", "fastpath/nccl"},
    "fastpath/nccl": {"fastpath/device", "fastpath/forward", "fastpath/schedule"},
    "fastpath/device": {"fastpath/choice", "fastpath/schedule", "support"},
    "fastpath/forward": {"fastpath/choice", "os", "support"},
    "fastpath/peers": {"fastpath/choice", "os"},
    "fastpath/choice": {"fastpath/schedule", "os", "support", "values"},
    "fastpath/schedule": set(),
}

CLOCK = re.compile(
    r"\b(?:system|steady|high_resolution|utc|tai|gps|file)_clock\b|\bclock_gettime\b|\bclock_getres\b|\bgettimeofday\b|\btimespec_get\b|\btimes\s*\(|\bclock\s*\("
    r"|\b(?:localtime|gmtime|strftime|mktime|asctime|ctime)(?:_r)?\s*\(|\bput_time\b|\b_*rdtscp?\b"
    r"|(?<![\w.>])(?:std::|::)?time\s*\(\s*(?:nullptr|NULL|0|&)"
)
# Paths of the files that may include each library's headers.
LIBRARIES = {
    "CLI/": re.compile(r"engine/options/options\.cpp"),
    "nlohmann/": re.compile(r"engine/output/json_text\.cpp"),
    "nccl": re.compile(r"engine/backends/nccl/(cuda|kernels)/.*|fastpath/(communicator|device|exports|nccl|verify)/.*"),
    "mpi.h": re.compile(r"engine/backends/mpi/.*"),
}
# Allowed includes of a device file: the toolkit's own, and headers of plain types.
DEVICE_HEADER = re.compile(r"cuda|cooperative_groups|nccl|(?:cstdint|cstddef|stdint\.h|stddef\.h)$")

# Allowed imports of each module of the command besides itself. All may import __init__ (the version).
CORE = {"logs", "records", "statistics", "errors", "units"}
PYTHON_DEPENDENCIES = {
    "errors": set[str](),
    "termination_signals": set[str](),
    "units": set[str](),
    "files": set[str](),
    "records": {"errors", "units"},
    "logs": {"records"},
    "statistics": {"errors", "logs", "records", "units"},
    "schema": {"records"},
    "engine": CORE,
    "launchers": CORE | {"termination_signals", "engine", "files", "catalog"},
    "readers": CORE,
    "catalog": {"errors", "files"},
    "svg": set[str](),
    "reference": CORE | {"catalog"},
    "store": CORE | {"files", "readers"},
    "history": CORE | {"store"},
    "terminal": CORE,
    "compare": CORE | {"terminal"},
    "ab": CORE | {"compare", "engine", "launchers", "readers"},
    "tune": CORE | {"ab", "compare"},
    "fastpath": CORE | {"ab", "engine", "files", "store"},
    "system": CORE | {"catalog"},
    "topology": CORE | {"svg", "terminal"},
    "expect": CORE | {"system"},
    "judge": CORE | {"expect", "reference", "system"},
    "exporters": CORE,
    "report": CORE | {"compare", "expect", "judge", "reference", "svg", "system"},
    "cli": None,
}


def without_comments(text: str) -> str:
    """C++ text without comments and contents of strings. Includes are unchanged."""
    kept = []
    for line in re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).splitlines():
        if re.match(r"\s*#\s*include\b", line):
            kept.append(line)
        else:
            kept.append(re.sub(r'"(?:\\.|[^"\\])*"', '""', line).split("//")[0])
    return "\n".join(kept)


def engine_part(path: str) -> str:
    """Folder of ENGINE_DEPENDENCIES that a path below engine/, or of fastpath/, belongs to. Empty if unknown."""
    folder = Path(path).parent.as_posix()
    if folder == ".":
        return "main" if Path(path).stem in {"main", "alias"} else ""
    return folder if folder in ENGINE_DEPENDENCIES else ""


def may_include(file: str, header: str) -> bool:
    part, other = engine_part(file), engine_part(header)
    return part == other or other in ENGINE_DEPENDENCIES[part] or header in ENGINE_DEPENDENCIES[part]


def engine_violations(root: Path) -> list[str]:
    found = []
    for folder in ("engine", "fastpath"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".cpp", ".hpp", ".cu", ".cuh", ".c", ".h"}:
                continue
            name = path.relative_to(root).as_posix()
            inner = path.relative_to(root / "engine").as_posix() if folder == "engine" else name
            code = without_comments(path.read_text())
            if not engine_part(inner):
                found.append(f"{name}: belongs to no known folder; add it in {Path(__file__).name}")
                continue
            for kind, header in re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)', code, flags=re.MULTILINE):
                if kind == '"' and not engine_part(header):
                    found.append(f"{name}: includes {header}, which belongs to no known folder")
                elif kind == '"' and not may_include(inner, header):
                    found.append(f"{name}: includes {header}, which is not allowed")
                if kind == "<" and path.suffix in {".cu", ".cuh"} and not DEVICE_HEADER.match(header):
                    found.append(f"{name}: includes {header}, too heavy for a device file")
                for library, allowed in LIBRARIES.items():
                    if kind == "<" and header.startswith(library) and not allowed.fullmatch(name):
                        found.append(f"{name}: includes {header}, allowed only in {allowed.pattern}")
            if not name.startswith("engine/measure/"):
                found += [f"{name}: reads a clock: {match.group()}" for match in CLOCK.finditer(code)]
    return found


def imported_modules(path: Path, package: str) -> set[str]:
    """Names of the modules below busbw that a file imports."""
    modules = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            names = [f"{base}.{alias.name}" for alias in node.names] if base == "busbw" else [base]
        else:
            continue
        modules |= {name.split(".")[1] for name in names if name.startswith("busbw.")}
    return modules


def python_violations(root: Path) -> list[str]:
    found = []
    source = root / "src" / "busbw"
    for path in sorted(source.rglob("*.py")):
        inner = path.relative_to(source)
        name = path.relative_to(root).as_posix()
        allowed: set[str] | None
        if inner.as_posix() == "__init__.py":
            module, allowed = "", set()
        else:
            module = inner.parts[0].removesuffix(".py")
            if module not in PYTHON_DEPENDENCIES:
                found.append(f"{name}: belongs to no known folder; add it in {Path(__file__).name}")
                continue
            allowed = PYTHON_DEPENDENCIES[module]
        package = ".".join(["busbw", *inner.parent.parts])
        for other in sorted(imported_modules(path, package) - {module, "__version__"}):
            if other == "cli" or (allowed is not None and other not in allowed):
                found.append(f"{name}: imports busbw.{other}, which is not allowed")
    return found


def test_the_engine_keeps_the_rules() -> None:
    assert engine_violations(ROOT) == []


def test_the_command_keeps_the_rules() -> None:
    assert python_violations(ROOT) == []


def test_no_command_imports_another() -> None:
    """Code that several commands share is in modules that are not commands."""
    folder = ROOT / "src" / "busbw" / "cli"
    modules = {f"busbw.cli.{name}_" if iskeyword(name) else f"busbw.cli.{name}" for name in COMMANDS}
    found = []
    for path in sorted(folder.rglob("*.py")):
        named = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                named |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        found += [f"{path.name}: {name}" for name in sorted(named & modules)]
    assert found == []


def test_the_folders_have_files() -> None:
    assert len(list((ROOT / "engine").rglob("*.cpp"))) > 20
    assert len(list((ROOT / "src" / "busbw").rglob("*.py"))) > 5


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("engine/output/text.cpp", '#include "measure/clock.hpp"', "which is not allowed"),
        ("engine/backends/mpi/mpi_backend.cpp", '#include "backends/host/memory/channels.hpp"', "which is not allowed"),
        ("engine/backends/nccl/nccl_backend.cpp", '#include "backends/host/machine.hpp"', "which is not allowed"),
        ("engine/values/types.hpp", '#include "verify/values.hpp"', "which is not allowed"),
        ("engine/verify/values.cpp", '#include "backends/backend.hpp"', "which is not allowed"),
        ("engine/collectives/reduce.cpp", '#include "backends/host/arena.hpp"', "which is not allowed"),
        ("engine/collectives/reduce.cpp", '#include "rendezvous/team/team.hpp"', "which is not allowed"),
        ("engine/backends/host/arena.cpp", '#include "options/options.hpp"', "which is not allowed"),
        ("engine/backends/host/arena.cpp", '#include "backends/nccl/library.hpp"', "which is not allowed"),
        ("engine/measure/runner.cpp", '  #  include "output/sink.hpp"', "which is not allowed"),
        ("engine/collectives/reduce.cpp", '#include "options/sweep.hpp"', "which is not allowed"),
        ("fastpath/exports/hook.cpp", '#include "verify/values.hpp"', "which is not allowed"),
        ("engine/new_part/file.cpp", "", "no known folder"),
        ("engine/novelty.cpp", "", "no known folder"),
        ("engine/options/sweep.cpp", '#include "new_part/file.hpp"', "no known folder"),
        ("engine/options/sweep.cpp", "#include <CLI/CLI.hpp>", "allowed only in"),
        ("engine/options/options_table.cpp", "#include <CLI/CLI.hpp>", "allowed only in"),
        ("engine/output/records.cpp", "#include <nlohmann/json.hpp>", "allowed only in"),
        ("engine/measure/runner.cpp", "#include <nccl.h>", "allowed only in"),
        ("engine/backends/nccl/kernels/kernel.cu", "#include <vector>", "too heavy"),
        ("engine/backends/nccl/kernels/kernel.cu", "#include <fmt/format.h>", "too heavy"),
        ("engine/output/text.cpp", "auto now = std::chrono::system_clock::now();", "reads a clock"),
        ("engine/backends/host/wait.hpp", "using Clock = std::chrono::steady_clock;", "reads a clock"),
        ("engine/rendezvous/team.cpp", "clock_gettime(CLOCK_MONOTONIC, &t);", "reads a clock"),
        ("engine/main.cpp", "gettimeofday(&t, nullptr);", "reads a clock"),
        ("engine/main.cpp", "const auto now = time(nullptr);", "reads a clock"),
        ("engine/main.cpp", "const auto now = std::time(0);", "reads a clock"),
        ("engine/output/text.cpp", "localtime_r(&t, &parts);", "reads a clock"),
    ],
)
def test_a_bad_file_of_the_engine_is_found(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f"#pragma once\n{line}\n")
    found = engine_violations(tmp_path)
    assert len(found) == 1, found
    assert found[0].startswith(f"{file}: ")
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("engine/main.cpp", '#include "run/runner.hpp"'),
        ("engine/options/options.cpp", "#include <CLI/CLI.hpp>"),
        ("engine/measure/clock.cpp", "auto now = std::chrono::steady_clock::now();"),
        ("engine/backends/host/arena.cpp", '#include "backends/host/barrier.hpp"'),
        ("engine/backends/host/arena.cpp", '#include "backends/backend.hpp"'),
        ("engine/collectives/reduce.cpp", '#include "backends/backend.hpp"'),
        ("engine/output/text.cpp", "// reads no clock_gettime(); nor time(nullptr)"),
        ("engine/output/text.cpp", 'const char* text = "time(nullptr)";'),
        ("engine/output/text.cpp", "const double s = row.time(0) + mean_time(0);"),
        ("engine/rendezvous/team.cpp", "std::this_thread::sleep_for(std::chrono::milliseconds(1));"),
    ],
)
def test_a_good_file_of_the_engine_passes(tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    assert engine_violations(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("records.py", "from busbw.engine import run", "imports busbw.engine"),
        ("records.py", "from .engine import run", "imports busbw.engine"),
        ("readers/dcgm.py", "from .. import store", "imports busbw.store"),
        ("readers/dcgm.py", "import busbw.cli.main", "imports busbw.cli"),
        ("errors.py", "def late():\n    from busbw import records", "imports busbw.records"),
        ("__init__.py", "from busbw import engine", "imports busbw.engine"),
        ("novelty.py", "", "no known folder"),
    ],
)
def test_a_bad_module_of_the_command_is_found(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    path = tmp_path / "src" / "busbw" / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    found = python_violations(tmp_path)
    assert len(found) == 1, found
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("cli/run.py", "from busbw import __version__, engine\nfrom busbw.records import Row"),
        ("readers/dcgm.py", "from busbw.records import Row\nfrom . import nccl_tests\nimport re"),
    ],
)
def test_a_good_module_of_the_command_passes(tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / "src" / "busbw" / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    assert python_violations(tmp_path) == []


TYPE = re.compile(r"^(?:class|struct|enum class) (\w+)(?: final)?(?: *:[^;{]*)? \{", flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("folders", "type_name", "home"),
    [
        (("engine", "tests/engine"), "Store", "engine/rendezvous/store/store.hpp"),
        (("fastpath", "tests/fastpath"), "Settings", "fastpath/choice/settings.hpp"),
    ],
)
def test_a_type_of_a_namespace_has_one_definition(folders: tuple[str, ...], type_name: str, home: str) -> None:
    """With two types of one name in one namespace, the linker would use one type's functions for both."""
    homes: dict[str, set[str]] = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.[ch]*")):
            for name in TYPE.findall(path.read_text()) if path.suffix in {".hpp", ".cuh"} else []:
                homes.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    assert homes[type_name] == {home}
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
