#include "backends/nccl/open_library.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "support_environment.hpp"
#include "support_errors.hpp"
#include "temporary_folder.hpp"

using namespace busbw;

namespace {

LibrarySearch named(const std::string& path) { return {path, "--library", {}, "libbusbw-none.so"}; }

std::string refusal_of(const LibrarySearch& search) {
  return sentence_of<EnvironmentError>([&] { open_nccl(search); });
}

}  // namespace

TEST_CASE("open_nccl: a library by name, with version, file and functions") {
  const OpenedLibrary library = open_nccl(named(BUSBW_FAKE_NCCL));
  CHECK(library.version == 22809);
  CHECK(library.path == std::filesystem::canonical(BUSBW_FAKE_NCCL));
  CHECK(library.find("ncclAllReduce") != nullptr);
  CHECK(library.find("ncclNoSuchThing") == nullptr);
  check_names(library.name_text(), {"NCCL 2.28.9", library.path});
}

TEST_CASE("open_nccl: an exported function counts as absent if the version is older than it") {
  const OpenedLibrary library = open_nccl(named(BUSBW_FAKE_NCCL));
  CHECK(library.find("ncclAllReduce", library.version) != nullptr);
  CHECK(library.find("ncclAllReduce", library.version + 1) == nullptr);
  CHECK(open_nccl(named(BUSBW_FAKE_NCCL_OWN_COUNT)).find("ncclGetVersion", library.version) != nullptr);
}

TEST_CASE("open_nccl: the oldest and the newest NCCL of PyPI, which need no driver to be opened") {
  const auto wheels = std::filesystem::path(BUSBW_TEST_DIR).parent_path() / "build" / "nccl-wheels";
  std::error_code none;
  for (const auto& wheel : std::filesystem::directory_iterator(wheels, none)) {
    const auto file = wheel.path() / "nvidia" / "nccl" / "lib" / "libnccl.so.2";
    INFO(file.string());
    const OpenedLibrary library = open_nccl(named(file.string()));
    CHECK(library.path == std::filesystem::canonical(file));
    check_names(library.name_text(), {"NCCL " + wheel.path().filename().string()});
  }
}

TEST_CASE("open_nccl: links are resolved, so that path and hash belong to the same file") {
  const test::TemporaryFolder folder;
  std::filesystem::create_symlink(BUSBW_FAKE_NCCL, folder.file("libnccl.so.2"));
  CHECK(open_nccl(named(folder.file("libnccl.so.2"))).path == std::filesystem::canonical(BUSBW_FAKE_NCCL));
}

TEST_CASE("open_nccl: NCCL 2.18 and other libraries with own version numbers are accepted") {
  CHECK(open_nccl(named(BUSBW_FAKE_NCCL_2_18)).version == 21805);
  const OpenedLibrary other = open_nccl(named(BUSBW_FAKE_NCCL_OWN_COUNT));
  CHECK(other.version == 900);
  CHECK(other.find("ncclAllReduce") == nullptr);
}

TEST_CASE("open_nccl: an old, incomplete or mute library is refused with a remedy") {
  check_names(refusal_of(named(BUSBW_FAKE_NCCL_2_17)), {"NCCL 2.17.1", "too old", "2.18", "--library", "pip install"});
  check_names(refusal_of(named(BUSBW_FAKE_NCCL_2_8)), {"NCCL 2.8.4", "2.18"});
  check_names(refusal_of(named(BUSBW_FAKE_NCCL_BROKEN)), {"lacks ncclCommAbort, ncclGroupEnd", "--library"});
  check_names(refusal_of(named(BUSBW_FAKE_NCCL_MUTE)), {"does not report its version", "error 3", "--library"});
}

TEST_CASE("open_nccl: a library that is not NCCL, a file that is no library, and no file") {
  check_names(refusal_of(named(BUSBW_FAKE_NVML)),
              {"not a library with NCCL's interface", "ncclGetVersion", "--library"});
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("libnccl.so.2")) << "not a library\n";
  check_names(refusal_of(named(folder.file("libnccl.so.2"))), {"--library", folder.path(), "cannot be loaded"});
  check_names(refusal_of(named(folder.file("none.so"))), {"--library", folder.file("none.so"), "No such file"});
}

TEST_CASE("open_nccl: the environment's library precedes the system's, even if it is broken") {
  LibrarySearch search{{}, {}, {BUSBW_FAKE_NCCL_2_18}, BUSBW_FAKE_NCCL};
  CHECK(open_nccl(search).version == 21805);
  search.wheel_files = {"/nonexistent/libnccl.so.2"};
  check_names(refusal_of(search), {"the wheel's library", "/nonexistent/libnccl.so.2"});
  search.wheel_files.clear();
  CHECK(open_nccl(search).version == 22809);
  search.system_library = "libbusbw-none.so";
  check_names(refusal_of(search), {"no NCCL library found", "pip install", "--library", "BUSBW_NCCL_LIBRARY"});
}

TEST_CASE("library_search: the option precedes the variable, which may be empty") {
  made_up_environment() = {{"BUSBW_NCCL_LIBRARY", "/there/libnccl.so.2"}};
  CHECK(library_search("/here/libnccl.so.2", look_up).named_path == "/here/libnccl.so.2");
  CHECK(library_search("/here/libnccl.so.2", look_up).path_source == "--library");
  CHECK(library_search("", look_up).named_path == "/there/libnccl.so.2");
  CHECK(library_search("", look_up).path_source == "BUSBW_NCCL_LIBRARY");
  made_up_environment() = {{"BUSBW_NCCL_LIBRARY", ""}};
  CHECK(library_search("", look_up).named_path.empty());
  made_up_environment().clear();
  CHECK(library_search("", look_up).named_path.empty());
}
