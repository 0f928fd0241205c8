// Searches the places of a LibrarySearch in order and opens the first real NCCL.
#include "fastpath/forward/real_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <sstream>

#include "common/os/program_file.hpp"
#include "common/support/error.hpp"
#include "common/support/stderr_message.hpp"
#include "fastpath/choice/method_log.hpp"

namespace busbw::fastpath {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibraryVariable = "BUSBW_FASTPATH_NCCL";
constexpr const char* kEngineLibraryVariable = "BUSBW_NCCL_LIBRARY";
constexpr const char* kFileName = "libnccl.so.2";
/// Number of folders searched upward from a file, so that a library in <packages>/busbw/lib finds <packages>.
constexpr int kMaxFolderLevels = 3;

bool is_this_library(void* handle) { return dlsym(handle, kMarkerFunction) != nullptr; }

/// Returns the handle if it is a library with NCCL's interface other than this library. Otherwise closes it and returns
/// null.
void* keep_if_real(void* handle) {
  if (!handle) return nullptr;
  if (!is_this_library(handle) && dlsym(handle, "ncclGetVersion")) return handle;
  dlclose(handle);
  return nullptr;
}

/// Returns the NCCL that the program has loaded: the next library after this one in the search order, otherwise any
/// loaded library with NCCL's file name. Null if there is no such library.
void* open_loaded() {
  if (void* const next = dlsym(RTLD_NEXT, "ncclGetVersion"))
    if (void* const handle = keep_if_real(dlopen(file_containing(next).c_str(), RTLD_LAZY | RTLD_NOLOAD)))
      return handle;
  return keep_if_real(dlopen(kFileName, RTLD_LAZY | RTLD_NOLOAD));
}

void* open_file(const std::string& file) { return keep_if_real(dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL)); }

/// Opens the file that BUSBW_FASTPATH_NCCL names. Throws EnvironmentError if it is no real NCCL.
void* open_required(const std::string& file) {
  void* const handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!handle)
    throw EnvironmentError(fmt::format("{}={} cannot be loaded: {}; name another NCCL library, or unset the variable",
                                       kLibraryVariable, file, dlerror()));
  if (is_this_library(handle))
    throw EnvironmentError(
        fmt::format("{}={} is libbusbw_nccl.so itself; name the real NCCL library", kLibraryVariable, file));
  if (!dlsym(handle, "ncclGetVersion"))
    throw EnvironmentError(fmt::format("{}={} is not an NCCL library: it has no ncclGetVersion; name an NCCL library",
                                       kLibraryVariable, file));
  return handle;
}

void* open_first_real(const LibrarySearch& search) {
  if (!search.required_file.empty()) return open_required(search.required_file);
  if (search.use_loaded)
    if (void* const handle = open_loaded()) return handle;
  std::vector<std::string> files;
  if (!search.engine_library.empty()) files.push_back(search.engine_library);
  files.insert(files.end(), search.wheel_files.begin(), search.wheel_files.end());
  if (!search.system_library.empty()) files.push_back(search.system_library);
  std::error_code error;
  for (const auto& folder : search.folders)
    if (const auto file = fs::path(folder) / kFileName; fs::exists(file, error)) files.push_back(file.string());
  for (const auto& file : files)
    if (void* const handle = open_file(file)) return handle;
  throw EnvironmentError(fmt::format(
      "no NCCL library found; install one (pip install nvidia-nccl-cu13), or name its file with {}", kLibraryVariable));
}

/// Adds the libraries of NCCL wheels if `root` is a folder of Python packages or a Python environment.
void add_wheels(const fs::path& root, std::vector<std::string>& wheel_files) {
  std::vector<std::string> files = wheel_libraries(root);
  std::error_code error;
  if (const auto file = root / kWheelLibrary; fs::exists(file, error)) files.insert(files.begin(), file.string());
  for (const auto& file : files)
    if (std::ranges::find(wheel_files, file) == wheel_files.end()) wheel_files.push_back(file);
}

/// Returns the folders of LD_LIBRARY_PATH, then those of the system.
std::vector<std::string> system_folders(const std::string& library_path) {
  std::vector<std::string> folders;
  std::istringstream entries(library_path);
  for (std::string folder; std::getline(entries, folder, ':');)
    if (!folder.empty()) folders.push_back(folder);
#if defined(__x86_64__)
  folders.push_back("/usr/lib/x86_64-linux-gnu");
#elif defined(__aarch64__)
  folders.push_back("/usr/lib/aarch64-linux-gnu");
#endif
  folders.insert(folders.end(), {"/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/cuda/lib64"});
  return folders;
}

}  // namespace

std::vector<std::string> wheels_near(const std::vector<std::string>& files) {
  std::vector<std::string> wheel_files;
  std::error_code error;
  for (const auto& file : files) {
    fs::path folder = fs::canonical(file, error).parent_path();
    for (int level = 0; !error && level < kMaxFolderLevels && folder.has_relative_path(); ++level) {
      add_wheels(folder, wheel_files);
      folder = folder.parent_path();
    }
  }
  return wheel_files;
}

LibrarySearch library_search(Environment environment) {
  LibrarySearch search;
  search.required_file = environment(kLibraryVariable).value_or("");
  search.engine_library = environment(kEngineLibraryVariable).value_or("");
  // The address of any constant of this library leads to the file of this library.
  search.wheel_files = wheels_near({file_containing(kMarkerFunction), program_path().value_or("")});
  search.system_library = kFileName;  // without a folder, so the dynamic linker searches
  search.folders = system_folders(environment("LD_LIBRARY_PATH").value_or(""));
  return search;
}

OpenedLibrary open_real_library(const LibrarySearch& search) {
  OpenedLibrary library;
  library.handle = open_first_real(search);
  library.path = file_containing(library.find("ncclGetVersion"));
  library.read_version(kLibraryVariable);
  return library;
}

const OpenedLibrary* real_library() noexcept {
  // Threads may search at the same time, and the first result is used. A lock could deadlock: its owner waits for the
  // loader's lock while the owner of the loader's lock waits for the first lock. The library is never freed, because a
  // program may call NCCL after main() has returned.
  static std::atomic<const OpenedLibrary*> process_library{nullptr};
  static std::atomic<bool> reported{false};
  if (const auto* library = process_library.load(std::memory_order_acquire)) return library;
  try {
    auto opened = std::make_unique<OpenedLibrary>(open_real_library(library_search(process_environment)));
    const OpenedLibrary* other_thread_library = nullptr;
    if (!process_library.compare_exchange_strong(other_thread_library, opened.get(), std::memory_order_acq_rel))
      return other_thread_library;
    const OpenedLibrary* const library = opened.release();
    log().log_message("delegating to " + library->name_text());
    return library;
  } catch (const std::exception& error) {
    if (!reported.exchange(true)) print_stderr("libbusbw_nccl.so", error.what());
    return nullptr;
  }
}

}  // namespace busbw::fastpath
