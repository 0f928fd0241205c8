// Search order, dlopen, and the check that a library has NCCL's interface.
#include "backends/nccl/open_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "common/os/program_file.hpp"
#include "common/support/error.hpp"

namespace busbw {
namespace {

constexpr int kMinVersion = 21800;  // 2.18
constexpr const char* kLibraryVariable = "BUSBW_NCCL_LIBRARY";

/// Functions that every run needs, to run collectives and to end ranks.
constexpr std::array kRequiredFunctions{"ncclGetVersion",     "ncclGetUniqueId", "ncclCommInitRank",
                                        "ncclCommDestroy",    "ncclCommAbort",   "ncclCommGetAsyncError",
                                        "ncclGetErrorString", "ncclGroupStart",  "ncclGroupEnd"};

/// `source` begins the error message, which ends with `remedy`.
void* open_or_throw(const std::string& path, const std::string& source, const std::string& remedy) {
  if (void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  throw EnvironmentError(fmt::format("{} {} cannot be loaded: {}; {}", source, path, dlerror(), remedy));
}

/// Opens the first library of the search order.
void* open_first(const LibrarySearch& search) {
  if (!search.named_path.empty())
    return open_or_throw(search.named_path, search.path_source,
                         fmt::format("name another NCCL library, or drop {}", search.path_source));
  // Symbols of a preloaded library are among the program's own.
  if (dlsym(RTLD_DEFAULT, "ncclGetVersion")) return dlopen(nullptr, RTLD_NOW);
  // A library that is installed with the program precedes the system's. If it cannot be loaded, that is an error.
  if (!search.wheel_files.empty())
    return open_or_throw(search.wheel_files.front(), "the wheel's library",
                         "reinstall the wheel, or name another NCCL library with --library");
  if (void* const handle = dlopen(search.system_library.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  throw EnvironmentError(fmt::format(
      "no NCCL library found: {}; install one (pip install nvidia-nccl-cu13), or name it with --library or {}",
      dlerror(), kLibraryVariable));
}

/// Resolves links. Returns `path` if that fails.
std::string resolve_links(const std::string& path) {
  std::error_code error;
  const auto resolved = std::filesystem::canonical(path, error);
  return error ? path : resolved.string();
}

}  // namespace

LibrarySearch library_search(const std::string& option, Environment environment) {
  LibrarySearch search;
  const auto variable = environment(kLibraryVariable);
  if (!option.empty()) {
    search.named_path = option;
    search.path_source = "--library";
  } else if (variable && !variable->empty()) {
    search.named_path = *variable;
    search.path_source = kLibraryVariable;
  }
  if (const auto program = program_path())
    search.wheel_files = wheel_libraries(std::filesystem::path(*program).parent_path().parent_path());
  return search;
}

OpenedLibrary open_nccl(const LibrarySearch& search) {
  OpenedLibrary library;
  library.handle = open_first(search);
  library.path = resolve_links(file_containing(library.find("ncclGetVersion")));
  std::vector<std::string> missing;
  std::ranges::copy_if(kRequiredFunctions, std::back_inserter(missing), [&](auto name) { return !library.find(name); });
  if (!missing.empty())
    throw EnvironmentError(
        fmt::format("{} is not a library with NCCL's interface: it lacks {}; name another with --library",
                    library.path.empty() ? search.named_path : library.path, fmt::join(missing, ", ")));
  library.read_version(/*setting=*/"--library");
  // Another library with NCCL's interface may have a version number that says nothing about its functions.
  const bool is_old_nccl = is_nccl_version(library.version) && library.version < kMinVersion;
  if (is_old_nccl)
    throw EnvironmentError(
        fmt::format("{} is too old; use 2.18 or later: name another with --library, or "
                    "install one (pip install nvidia-nccl-cu13)",
                    library.name_text()));
  return library;
}

}  // namespace busbw
