"""Architecture rules: which directory may depend on which, where time is read, where a library may be used.

dependencies.toml lists the allowed dependencies of each directory; docs/architecture.md describes the directories.
"""

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from keyword import iskeyword
from pathlib import Path

import msgspec
import pytest

from busbw.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[3]
ALLOWED: dict[str, dict[str, list[str]]] = msgspec.toml.decode(
    Path(__file__).with_name("dependencies.toml").read_bytes()
)

CPP_ROOTS = ("common", "engine", "fastpath", "profiler")
CPP_SUFFIXES = {".cpp", ".hpp", ".cu", ".cuh", ".c", ".h"}
INCLUDE_PATHS = ("", "engine/", "common/")
MAX_FILES_PER_DIRECTORY = 25

CLOCK = re.compile(
    r"\b(?:system|steady|high_resolution|utc|tai|gps|file)_clock\b|\bclock_gettime\b|\bclock_getres\b|\bgettimeofday\b|\btimespec_get\b|\btimes\s*\(|\bclock\s*\("
    r"|\b(?:localtime|gmtime|strftime|mktime|asctime|ctime)(?:_r)?\s*\(|\bput_time\b|\b_*rdtscp?\b"
    r"|(?<![\w.>])(?:std::|::)?time\s*\(\s*(?:nullptr|NULL|0|&)"
)
LIBRARIES = {
    "CLI/": re.compile(r"engine/options/command_line\.cpp"),
    "nlohmann/": re.compile(r"engine/(output/json_builder|flows/protocol|replay/replay_program)\.cpp"),
    "nccl": re.compile(r"engine/backends/nccl/(cuda|kernels)/.*|fastpath/(communicator|device|exports|nccl|verify)/.*"),
}
"""Beginning of a library's headers -> files that may include them."""
DEVICE_HEADER = re.compile(r"cuda|cooperative_groups|nccl|(?:cstdint|cstddef|stdint\.h|stddef\.h)$")
"""System headers that a device file may include: the toolkit's own, and headers of plain types."""

Dependency = tuple[str, str, str]
"""File, its directory, and the directory (or the single allowed file) that it depends on."""


def without_comments(text: str) -> str:
    """Returns C++ without comments and string contents; includes keep theirs."""
    kept = []
    for line in re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL).splitlines():
        if re.match(r"\s*#\s*include\b", line):
            kept.append(line)
        else:
            kept.append(re.sub(r'"(?:\\.|[^"\\])*"', '""', line).split("//")[0])
    return "\n".join(kept)


def cpp_files(root: Path) -> Iterator[tuple[str, str]]:
    """Yields name and code of every C++ and CUDA file."""
    for folder in CPP_ROOTS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in CPP_SUFFIXES:
                yield path.relative_to(root).as_posix(), without_comments(path.read_text())


def included_path(header: str, directory: str) -> str:
    """Returns the path of an included header: of an existing file, else of one in a listed directory."""
    paths = [
        path for prefix in (*INCLUDE_PATHS, f"{directory}/") if (path := f"{prefix}{header}").startswith(CPP_ROOTS)
    ]
    existing = [path for path in paths if (ROOT / path).is_file()]
    listed = [path for path in paths if Path(path).parent.as_posix() in ALLOWED["cpp"]]
    return next(iter(existing + listed), header)


def cpp_dependencies(root: Path) -> Iterator[Dependency]:
    for name, code in cpp_files(root):
        directory = Path(name).parent.as_posix()
        yield name, directory, directory
        for header in re.findall(r'^\s*#\s*include\s*"([^"]+)', code, flags=re.MULTILINE):
            path = included_path(header, directory)
            single = path in ALLOWED["cpp"].get(directory, [])
            yield name, directory, path if single else Path(path).parent.as_posix()


def module_directory(module: str) -> str:
    """Returns the directory below src/busbw of a dotted module, or the name of a loose module."""
    parts = module.split(".")
    while parts:
        path = "/".join(parts)
        if path in ALLOWED["python"]:
            return path
        parts.pop()
    return module.split(".")[0]


def imported_modules(path: Path, package: str) -> Iterator[str]:
    """Yields the modules of busbw that a file imports, by the dotted name below busbw."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = package.split(".")
                base = ".".join([*parents[: len(parents) - node.level + 1], *filter(None, [base])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (
            name.removeprefix("busbw.") for name in names if name.startswith("busbw.") and name != "busbw.__version__"
        )


def python_dependencies(root: Path) -> Iterator[Dependency]:
    source = root / "src" / "busbw"
    for path in sorted(source.rglob("*.py")):
        inner = path.relative_to(source)
        folders = inner.parts[:-1]
        directory = "/".join(folders) or inner.stem
        name = path.relative_to(root).as_posix()
        yield name, directory, directory
        for module in imported_modules(path, ".".join(("busbw", *folders))):
            yield name, directory, module_directory(module)


def dependency_violations(found: Iterator[Dependency], allowed: dict[str, list[str]]) -> list[str]:
    """Returns one line for each file in an unlisted directory and each dependency that is not allowed."""
    violations = []
    for name, directory, other in sorted(set(found)):
        if directory not in allowed:
            violations.append(f"{name}: directory {directory} is not listed in dependencies.toml")
        elif directory != other and other not in allowed.get(directory, []):
            listed = other in allowed or other in {target for targets in allowed.values() for target in targets}
            violations.append(f"{name}: may not depend on {other}" + ("" if listed else ", which is not listed"))
    return violations


def source_violations(root: Path) -> list[str]:
    """Returns forbidden clocks, libraries outside their files, and heavy headers in device files."""
    found = []
    for name, code in cpp_files(root):
        for header in re.findall(r"^\s*#\s*include\s*<([^>]+)", code, flags=re.MULTILINE):
            if Path(name).suffix in {".cu", ".cuh"} and not DEVICE_HEADER.match(header):
                found.append(f"{name}: includes {header}, too heavy for a device file")
            for library, files in LIBRARIES.items():
                if header.startswith(library) and not files.fullmatch(name):
                    found.append(f"{name}: includes {header}, allowed only in {files.pattern}")
        if not name.startswith(("engine/measure/", "profiler/recorder.")):
            found += [f"{name}: reads a clock: {match.group()}" for match in CLOCK.finditer(code)]
    return found


def cpp_violations(root: Path) -> list[str]:
    return dependency_violations(cpp_dependencies(root), ALLOWED["cpp"]) + source_violations(root)


def python_violations(root: Path) -> list[str]:
    return dependency_violations(python_dependencies(root), ALLOWED["python"])


def test_cpp_keeps_the_rules() -> None:
    assert cpp_violations(ROOT) == []


def test_python_keeps_the_rules() -> None:
    assert python_violations(ROOT) == []


@pytest.mark.parametrize("language", ["cpp", "python"])
def test_each_allowed_dependency_is_listed_once(language: str) -> None:
    assert {name for name, listed in ALLOWED[language].items() if len(set(listed)) < len(listed)} == set()


@pytest.mark.parametrize(("language", "dependencies"), [("cpp", cpp_dependencies), ("python", python_dependencies)])
def test_every_allowed_dependency_is_used(language: str, dependencies: object) -> None:
    assert callable(dependencies)
    used: dict[str, set[str]] = {}
    for _, directory, other in dependencies(ROOT):
        used.setdefault(directory, set()).add(other)
    unused = {name: sorted(set(listed) - used.get(name, set())) for name, listed in ALLOWED[language].items()}
    assert {name: rest for name, rest in unused.items() if rest or name not in used} == {}


@pytest.mark.parametrize("language", ["cpp", "python"])
def test_dependencies_have_no_cycle(language: str) -> None:
    directories = {
        name: {Path(other).parent.as_posix() if Path(other).suffix else other for other in listed}
        for name, listed in ALLOWED[language].items()
    }
    TopologicalSorter(directories).prepare()  # raises CycleError


def test_engine_and_fast_path_share_only_common() -> None:
    for name, listed in ALLOWED["cpp"].items():
        home = name.split("/")[0]
        assert {other.split("/")[0] for other in listed} <= {home, "common"}, name


def test_directories_are_small() -> None:
    counts: dict[str, int] = {}
    for path in ROOT.rglob("*"):
        inner = path.relative_to(ROOT)
        if path.suffix in {*CPP_SUFFIXES, ".py"} and inner.parts[0] in {*CPP_ROOTS, "src", "tests", "bench", "tools"}:
            counts[inner.parent.as_posix()] = counts.get(inner.parent.as_posix(), 0) + 1
    assert {name: count for name, count in counts.items() if count > MAX_FILES_PER_DIRECTORY} == {}


def test_the_architecture_page_names_every_directory() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    names = [
        *ALLOWED["cpp"],
        *(f"src/busbw/{name}" for name in ALLOWED["python"] if (ROOT / "src/busbw" / name).is_dir()),
    ]
    assert [name for name in names if f"`{name}/`" not in page] == []


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


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("engine/output/text.cpp", '#include "measure/clock.hpp"', "may not depend on engine/measure"),
        ("engine/backends/nccl/nccl_backend.cpp", '#include "backends/host/memory/channels.hpp"', "may not depend on"),
        ("engine/backends/nccl/nccl_backend.cpp", '#include "backends/host/host_hardware.hpp"', "may not depend on"),
        ("engine/values/phase.hpp", '#include "verify/reduction_values.hpp"', "may not depend on"),
        ("engine/verify/mismatch.cpp", '#include "backends/backend.hpp"', "may not depend on"),
        ("engine/collectives/reduce.cpp", '#include "backends/host/rank_buffers.hpp"', "may not depend on"),
        ("engine/collectives/reduce.cpp", '#include "rendezvous/team/team.hpp"', "may not depend on"),
        ("engine/backends/host/host_hardware.cpp", '#include "options/options.hpp"', "may not depend on"),
        ("engine/measure/sampling/iteration_runner.cpp", '  #  include "output/sink.hpp"', "may not depend on"),
        ("engine/collectives/reduce.cpp", '#include "options/sweep.hpp"', "may not depend on"),
        ("fastpath/exports/hook.cpp", '#include "engine/verify/mismatch.hpp"', "may not depend on"),
        ("common/os/environment.cpp", '#include "values/types.hpp"', "may not depend on common/values"),
        ("engine/new_part/file.cpp", "", "is not listed"),
        ("engine/options/sweep.cpp", '#include "new_part/file.hpp"', "which is not listed"),
        ("engine/options/sweep.cpp", "#include <CLI/CLI.hpp>", "allowed only in"),
        ("engine/output/record_writer.cpp", "#include <nlohmann/json.hpp>", "allowed only in"),
        ("engine/measure/sampling/iteration_runner.cpp", "#include <nccl.h>", "allowed only in"),
        ("engine/backends/nccl/kernels/kernel.cu", "#include <vector>", "too heavy"),
        ("engine/backends/nccl/kernels/kernel.cu", "#include <fmt/format.h>", "too heavy"),
        ("engine/output/text.cpp", "auto now = std::chrono::system_clock::now();", "reads a clock"),
        ("engine/backends/host/wait.hpp", "using Clock = std::chrono::steady_clock;", "reads a clock"),
        ("common/os/ticker.cpp", "clock_gettime(CLOCK_MONOTONIC, &t);", "reads a clock"),
        ("engine/main.cpp", "gettimeofday(&t, nullptr);", "reads a clock"),
        ("engine/main.cpp", "const auto now = time(nullptr);", "reads a clock"),
        ("engine/main.cpp", "const auto now = std::time(0);", "reads a clock"),
        ("engine/output/text.cpp", "localtime_r(&t, &parts);", "reads a clock"),
    ],
)
def test_a_bad_cpp_file_is_found(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f"#pragma once\n{line}\n")
    found = cpp_violations(tmp_path)
    assert len(found) == 1, found
    assert found[0].startswith(f"{file}: ")
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("engine/main.cpp", '#include "run/reporter.hpp"'),
        ("engine/options/command_line.cpp", "#include <CLI/CLI.hpp>"),
        ("engine/measure/clock.cpp", "auto now = std::chrono::steady_clock::now();"),
        ("engine/backends/host/host_hardware.cpp", '#include "backends/host/rank_buffers.hpp"'),
        ("engine/backends/host/host_hardware.cpp", '#include "backends/backend.hpp"'),
        ("engine/collectives/reduce.cpp", '#include "backends/backend.hpp"'),
        ("engine/output/text.cpp", "// reads no clock_gettime(); nor time(nullptr)"),
        ("engine/output/text.cpp", 'const char* text = "time(nullptr)";'),
        ("engine/output/text.cpp", "const double s = row.time(0) + mean_time(0);"),
        ("engine/rendezvous/store_team.cpp", "std::this_thread::sleep_for(std::chrono::milliseconds(1));"),
    ],
)
def test_a_good_cpp_file_passes(tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    assert cpp_violations(tmp_path) == []


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("records.py", "from busbw.engine import run", "may not depend on engine"),
        ("records.py", "from .engine import run", "may not depend on engine"),
        ("readers/dcgm.py", "from .. import store", "may not depend on store"),
        ("readers/tables/rows.py", "from ..lines import source", "may not depend on readers/lines"),
        ("readers/dcgm.py", "import busbw.cli.main", "may not depend on cli"),
        ("errors.py", "def late():\n    from busbw import records", "may not depend on records"),
        ("__init__.py", "from busbw import engine", "may not depend on engine"),
        ("novelty.py", "", "is not listed"),
    ],
)
def test_a_bad_python_module_is_found(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    path = tmp_path / "src" / "busbw" / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    found = python_violations(tmp_path)
    assert len(found) == 1, found
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("cli/check.py", "from busbw import __version__, engine\nfrom busbw.records import Row"),
        ("readers/documents/dcgm.py", "from busbw.records import Row\nfrom . import nccl_tests\nimport re"),
    ],
)
def test_a_good_python_module_passes(tmp_path: Path, file: str, line: str) -> None:
    path = tmp_path / "src" / "busbw" / file
    path.parent.mkdir(parents=True)
    path.write_text(f"{line}\n")
    assert python_violations(tmp_path) == []


TYPE = re.compile(r"^(?:class|struct|enum class) (\w+)(?: final)?(?: *:[^;{]*)? \{", flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("folders", "type_name", "home"),
    [
        (("common", "engine", "tests/common", "tests/engine"), "TcpStore", "engine/rendezvous/store/tcp_store.hpp"),
        (("fastpath", "tests/fastpath"), "Settings", "fastpath/choice/settings.hpp"),
    ],
)
def test_a_type_of_a_namespace_has_one_definition(folders: tuple[str, ...], type_name: str, home: str) -> None:
    """With two types of one name in one namespace, the linker uses the functions of either for both."""
    homes: dict[str, set[str]] = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.[ch]*")):
            for name in TYPE.findall(path.read_text()) if path.suffix in {".hpp", ".cuh"} else []:
                homes.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    assert homes[type_name] == {home}
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}
