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

constexpr int kMinVersion = 21800;
// Versions of NCCL have the form 2804 up to 2.8.4, and 20906 from 2.9.6 on. Smaller numbers, and those between, belong
// to other libraries.
constexpr int kFirstOldVersion = 2000;
constexpr int kLastOldVersion = 2999;
constexpr int kFirstNewVersion = 20900;
constexpr const char* kLibraryVariable = "BUSBW_NCCL_LIBRARY";

/// Functions that every run needs, to run collectives and to end ranks.
constexpr std::array kRequiredFunctions{"ncclGetVersion",     "ncclGetUniqueId", "ncclCommInitRank",
                                        "ncclCommDestroy",    "ncclCommAbort",   "ncclCommGetAsyncError",
                                        "ncclGetErrorString", "ncclGroupStart",  "ncclGroupEnd"};

/// Libraries of the wheel nvidia-nccl-cu* in the Python environment that contains this program.
std::vector<std::string> find_wheel_libraries() {
  const auto program = program_path();
  std::vector<std::string> libraries;
  if (!program) return libraries;
  std::error_code error;
  const auto lib_folder = std::filesystem::path(*program).parent_path().parent_path() / "lib";
  for (const auto& python_folder : std::filesystem::directory_iterator(lib_folder, error)) {
    if (!python_folder.path().filename().string().starts_with("python3")) continue;
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const auto library = python_folder.path() / packages / "nvidia/nccl/lib/libnccl.so.2";
      if (std::filesystem::exists(library, error)) libraries.push_back(library.string());
    }
  }
  std::ranges::sort(libraries);
  return libraries;
}

/// `source` begins the error message: the option or variable that named the library.
void* open_or_throw(const std::string& path, const std::string& source) {
  if (void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  throw EnvironmentError(
      fmt::format("{} {} cannot be loaded: {}; name another NCCL library, or leave it out", source, path, dlerror()));
}

/// Opens the first library of the search order.
void* open_first(const LibrarySearch& search) {
  if (!search.named_path.empty()) return open_or_throw(search.named_path, search.path_source);
  // Symbols of a preloaded library are among the program's own.
  if (dlsym(RTLD_DEFAULT, "ncclGetVersion")) return dlopen(nullptr, RTLD_NOW);
  // A library that is installed with the program precedes the system's. If it cannot be loaded, that is an error.
  if (!search.wheel_files.empty()) return open_or_throw(search.wheel_files.front(), "the wheel's library");
  if (void* const handle = dlopen(search.system_library.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  throw EnvironmentError(fmt::format(
      "no NCCL library found: {}; install one (pip install nvidia-nccl-cu13), or name it with --library or {}",
      dlerror(), kLibraryVariable));
}

/// File that contains a function, with links resolved.
std::string find_function_file(void* function) {
  Dl_info symbol{};
  if (!function || !dladdr(function, &symbol) || !symbol.dli_fname) return {};
  std::error_code error;
  const auto resolved = std::filesystem::canonical(symbol.dli_fname, error);
  return error ? std::string(symbol.dli_fname) : resolved.string();
}

bool is_too_old(int version) { return is_nccl_version(version) && version < kMinVersion; }

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
  search.wheel_files = find_wheel_libraries();
  return search;
}

void* OpenedLibrary::find(const char* function, int since) const {
  return is_nccl_version(version) && version < since ? nullptr : dlsym(handle, function);
}

std::string OpenedLibrary::name_text() const { return fmt::format("NCCL {} ({})", nccl_version_text(version), path); }

OpenedLibrary open_nccl(const LibrarySearch& search) {
  OpenedLibrary library;
  library.handle = open_first(search);
  void* const get_version = library.find("ncclGetVersion");
  library.path = find_function_file(get_version);
  std::vector<std::string> missing;
  std::ranges::copy_if(kRequiredFunctions, std::back_inserter(missing), [&](auto name) { return !library.find(name); });
  if (!missing.empty())
    throw EnvironmentError(
        fmt::format("{} is not a library with NCCL's interface: it lacks {}; name another with --library",
                    library.path.empty() ? search.named_path : library.path, fmt::join(missing, ", ")));
  const int result = reinterpret_cast<int (*)(int*)>(get_version)(&library.version);
  if (result != 0)
    throw EnvironmentError(
        fmt::format("{} does not report its version (ncclGetVersion: error {}); name another library "
                    "with --library",
                    library.path, result));
  if (is_too_old(library.version))
    throw EnvironmentError(
        fmt::format("{} is too old; use 2.18 or later: name another with --library, or "
                    "install one (pip install nvidia-nccl-cu13)",
                    library.name_text()));
  return library;
}

bool is_nccl_version(int version) {
  return (version >= kFirstOldVersion && version <= kLastOldVersion) || version >= kFirstNewVersion;
}

std::string nccl_version_text(int version) {
  if (version >= kFirstOldVersion && version <= kLastOldVersion)
    return fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace busbw
