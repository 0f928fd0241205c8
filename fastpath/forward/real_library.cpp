#include "fastpath/forward/real_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <set>
#include <sstream>

#include "common/support/error.hpp"
#include "common/support/stderr_message.hpp"
#include "fastpath/choice/method_log.hpp"

namespace busbw::fastpath {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "BUSBW_FASTPATH_NCCL";
constexpr const char* kEngineVariable = "BUSBW_NCCL_LIBRARY";
constexpr const char* kFileName = "libnccl.so.2";
constexpr const char* kWheelPath = "nvidia/nccl/lib/libnccl.so.2";
/// Number of folders searched upward from a file, so that a library in <packages>/busbw/lib finds <packages>.
constexpr int kMaxLevels = 3;

std::string file_of(const void* address) {
  Dl_info where{};
  return dladdr(address, &where) && where.dli_fname ? where.dli_fname : "";
}

bool is_ours(void* handle) { return dlsym(handle, kMarker) != nullptr; }

/// Returns the handle if it is a library with NCCL's interface other than this library. Otherwise closes it and returns
/// null.
void* real_or_null(void* handle) {
  if (!handle) return nullptr;
  if (!is_ours(handle) && dlsym(handle, "ncclGetVersion")) return handle;
  dlclose(handle);
  return nullptr;
}

/// Returns the NCCL that the program has loaded: the next library after this one in the search order, otherwise any
/// loaded library with NCCL's file name. Null if there is no such library.
void* open_loaded() {
  if (void* const next = dlsym(RTLD_NEXT, "ncclGetVersion"))
    if (void* const handle = real_or_null(dlopen(file_of(next).c_str(), RTLD_LAZY | RTLD_NOLOAD))) return handle;
  return real_or_null(dlopen(kFileName, RTLD_LAZY | RTLD_NOLOAD));
}

void* open_file(const std::string& file) { return real_or_null(dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL)); }

void* open_named(const std::string& file) {
  void* const handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!handle)
    throw EnvironmentError(fmt::format("{}={} cannot be loaded: {}; name another NCCL library, or unset the variable",
                                       kVariable, file, dlerror()));
  if (is_ours(handle))
    throw EnvironmentError(
        fmt::format("{}={} is libbusbw_nccl.so itself; name the real NCCL library", kVariable, file));
  if (!dlsym(handle, "ncclGetVersion"))
    throw EnvironmentError(
        fmt::format("{}={} is not an NCCL library: it has no ncclGetVersion; name an NCCL library", kVariable, file));
  return handle;
}

void* open_first(const LibrarySearch& search) {
  if (!search.named.empty()) return open_named(search.named);
  if (void* const handle = search.loaded ? open_loaded() : nullptr) return handle;
  std::vector<std::string> files;
  if (!search.of_engine.empty()) files.push_back(search.of_engine);
  files.insert(files.end(), search.wheels.begin(), search.wheels.end());
  if (!search.of_system.empty()) files.push_back(search.of_system);
  std::error_code error;
  for (const auto& folder : search.folders)
    if (const auto file = fs::path(folder) / kFileName; fs::exists(file, error)) files.push_back(file.string());
  for (const auto& file : files)
    if (void* const handle = open_file(file)) return handle;
  throw EnvironmentError(fmt::format(
      "no NCCL library found; install one (pip install nvidia-nccl-cu13), or name its file with {}", kVariable));
}

/// Adds the libraries of NCCL wheels for two cases: `root` is a folder of packages, or a Python environment.
void add_wheels(const fs::path& root, std::vector<std::string>& found) {
  std::error_code error;
  std::vector<fs::path> folders{root};
  std::set<fs::path> pythons;
  for (const auto& entry : fs::directory_iterator(root / "lib", error))
    if (entry.path().filename().string().starts_with("python3")) pythons.insert(entry.path());
  for (const auto& python : pythons)
    for (const char* packages : {"site-packages", "dist-packages"}) folders.push_back(python / packages);
  for (const auto& folder : folders) {
    const auto file = (folder / kWheelPath).string();
    if (fs::exists(file, error) && std::ranges::find(found, file) == found.end()) found.push_back(file);
  }
}

std::vector<std::string> system_folders(const std::string& library_path) {
  std::vector<std::string> folders;
  std::istringstream parts(library_path);
  for (std::string part; std::getline(parts, part, ':');)
    if (!part.empty()) folders.push_back(part);
#if defined(__x86_64__)
  folders.push_back("/usr/lib/x86_64-linux-gnu");
#elif defined(__aarch64__)
  folders.push_back("/usr/lib/aarch64-linux-gnu");
#endif
  folders.insert(folders.end(), {"/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/cuda/lib64"});
  return folders;
}

}  // namespace

void* RealLibrary::find(const char* function) const noexcept { return dlsym(handle, function); }

std::string RealLibrary::named() const {
  return fmt::format("NCCL {}.{}.{} ({})", version / 10000, version / 100 % 100, version % 100, path);
}

std::vector<std::string> wheels_near(const std::vector<std::string>& files) {
  std::vector<std::string> found;
  std::error_code error;
  for (const auto& file : files) {
    fs::path folder = fs::canonical(file, error).parent_path();
    for (int level = 0; !error && level < kMaxLevels && folder.has_relative_path(); ++level) {
      add_wheels(folder, found);
      folder = folder.parent_path();
    }
  }
  return found;
}

LibrarySearch library_search(Environment environment) {
  std::error_code error;
  LibrarySearch search;
  search.named = environment(kVariable).value_or("");
  search.of_engine = environment(kEngineVariable).value_or("");
  search.wheels = wheels_near({file_of(kMarker), fs::read_symlink("/proc/self/exe", error)});
  search.of_system = kFileName;
  search.folders = system_folders(environment("LD_LIBRARY_PATH").value_or(""));
  return search;
}

RealLibrary open_real_library(const LibrarySearch& search) {
  RealLibrary library;
  library.handle = open_first(search);
  void* const get_version = library.find("ncclGetVersion");
  library.path = file_of(get_version);
  if (const int result = reinterpret_cast<int (*)(int*)>(get_version)(&library.version); result != 0)
    throw EnvironmentError(
        fmt::format("{} does not report its version (ncclGetVersion: error {}); name another library with {}",
                    library.path, result, kVariable));
  return library;
}

const RealLibrary* real_library() noexcept {
  // Threads may search at the same time, and the first result is kept. A lock could deadlock: its owner waits for the
  // loader's lock, and a thread inside the loader waits for this one. The library is never freed, because a program may
  // call NCCL after main() has returned.
  static std::atomic<const RealLibrary*> kept{nullptr};
  static std::atomic<bool> reported{false};
  if (const auto* library = kept.load(std::memory_order_acquire)) return library;
  try {
    auto mine = std::make_unique<RealLibrary>(open_real_library(library_search(process_environment)));
    const RealLibrary* first = nullptr;
    if (!kept.compare_exchange_strong(first, mine.get(), std::memory_order_acq_rel)) return first;
    const RealLibrary* const found = mine.release();
    log().log_message("delegating to " + found->named());
    return found;
  } catch (const std::exception& error) {
    if (!reported.exchange(true)) print_stderr("libbusbw_nccl.so", error.what());
    return nullptr;
  }
}

}  // namespace busbw::fastpath
