#include "fastpath/forward/real_library.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "common/support/error.hpp"
#include "tests/engine/temporary_folder.hpp"

using namespace busbw;
using namespace busbw::fastpath;

namespace {

namespace fs = std::filesystem;

/// Returns a search without places. A test adds its own.
LibrarySearch nowhere() {
  LibrarySearch search;
  search.use_loaded = false;
  return search;
}

std::string refusal(const LibrarySearch& search) {
  try {
    open_real_library(search);
  } catch (const EnvironmentError& error) {
    return error.what();
  }
  return "found";
}

TEST_CASE("the library that the variable names is taken") {
  auto search = nowhere();
  search.required_file = NEW_NCCL;
  search.engine_library = OLD_NCCL;
  const auto library = open_real_library(search);
  CHECK(library.version == 22809);
  CHECK(library.path == NEW_NCCL);
  CHECK(library.name_text() == std::string("NCCL 2.28.9 (") + NEW_NCCL + ")");
  CHECK(library.find("ncclAllReduce"));
  CHECK_FALSE(library.find("ncclCommGrow"));
}

TEST_CASE("an unusable library in the variable is an error, and no other library is taken") {
  auto search = nowhere();
  search.engine_library = NEW_NCCL;
  search.required_file = "/nowhere/libnccl.so.2";
  CHECK(refusal(search).starts_with("BUSBW_FASTPATH_NCCL=/nowhere/libnccl.so.2 cannot be loaded: "));
  search.required_file = FORWARD;
  CHECK(refusal(search) ==
        std::string("BUSBW_FASTPATH_NCCL=") + FORWARD + " is libbusbw_nccl.so itself; name the real NCCL library");
  search.required_file = "libm.so.6";
  CHECK(refusal(search) ==
        "BUSBW_FASTPATH_NCCL=libm.so.6 is not an NCCL library: it has no ncclGetVersion; name an NCCL library");
}

TEST_CASE("the places are searched in order, and the fast-path library is never taken") {
  auto search = nowhere();
  CHECK(refusal(search) ==
        "no NCCL library found; install one (pip install nvidia-nccl-cu13), or name its file with BUSBW_FASTPATH_NCCL");
  search.folders = {"/nowhere", fs::path(OLD_NCCL).parent_path()};
  CHECK(open_real_library(search).version == 21805);
  search.system_library = NEW_NCCL;
  CHECK(open_real_library(search).version == 22809);
  search.wheel_files = {FORWARD, OLD_NCCL};
  CHECK(open_real_library(search).version == 21805);
  search.engine_library = NEW_NCCL;
  CHECK(open_real_library(search).version == 22809);
  search.engine_library = FORWARD;
  CHECK(open_real_library(search).version == 21805);
}

TEST_CASE("the search covers the variables and the wheels near the program") {
  const auto search = library_search([](const char* name) -> std::optional<std::string> {
    if (std::string(name) == "BUSBW_FASTPATH_NCCL") return "a";
    if (std::string(name) == "BUSBW_NCCL_LIBRARY") return "b";
    if (std::string(name) == "LD_LIBRARY_PATH") return "/c:/d e::";
    return std::nullopt;
  });
  CHECK(search.required_file == "a");
  CHECK(search.engine_library == "b");
  CHECK(search.system_library == "libnccl.so.2");
  REQUIRE(search.folders.size() > 3);
  CHECK(search.folders[0] == "/c");
  CHECK(search.folders[1] == "/d e");
  CHECK(search.folders[2].starts_with("/usr/"));
}

TEST_CASE("a wheel is found in the packages and in the environment of a file") {
  const busbw::test::TemporaryFolder folder;
  const fs::path root = folder.path();
  const auto packages = root / "env/lib/python3.11/site-packages";
  const auto library = packages / "nvidia/nccl/lib/libnccl.so.2";
  fs::create_directories(library.parent_path());
  fs::create_directories(packages / "busbw/lib");
  fs::create_directories(root / "env/bin");
  for (const auto& file : {library, packages / "busbw/lib/ours.so", root / "env/bin/program", root / "lonely"})
    std::ofstream{file};
  CHECK(wheels_near({packages / "busbw/lib/ours.so"}) == std::vector<std::string>{library});
  CHECK(wheels_near({root / "env/bin/program"}) == std::vector<std::string>{library});
  CHECK(wheels_near({root / "env/bin/program", packages / "busbw/lib/ours.so"}) == std::vector<std::string>{library});
  CHECK(wheels_near({root / "lonely", root / "absent", ""}).empty());
}

}  // namespace
