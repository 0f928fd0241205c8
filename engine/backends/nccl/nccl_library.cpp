#include "backends/nccl/nccl_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "support/error.hpp"

namespace busbw {
namespace {

constexpr int kLeastVersion = 21800;
constexpr const char* kVariable = "BUSBW_NCCL_LIBRARY";

/// The library of the wheel nvidia-nccl-cu*, in the environment whose bin/ holds this program.
std::vector<std::string> in_python_environment() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> found;
  if (error) return found;
  const auto lib = program.parent_path().parent_path() / "lib";
  for (const auto& python : std::filesystem::directory_iterator(lib, error)) {
    if (!python.path().filename().string().starts_with("python3")) continue;
    const auto library = python.path() / "site-packages/nvidia/nccl/lib/libnccl.so.2";
    if (std::filesystem::exists(library, error)) found.push_back(library.string());
  }
  return found;
}

struct Opened {
  void* handle = nullptr;
  std::string said;  // by the loader, of each place that was tried
};

Opened open_library(const std::string& path) {
  Opened opened;
  std::vector<std::string> places;
  if (!path.empty()) {
    places = {path};
  } else if (const char* named = std::getenv(kVariable); named && *named) {
    places = {named};
  } else if (dlsym(RTLD_DEFAULT, "ncclGetVersion")) {
    return {dlopen(nullptr, RTLD_NOW), {}};  // preloaded: already among the program's own symbols
  } else {
    places = in_python_environment();
    places.push_back("libnccl.so.2");
  }
  for (const std::string& place : places) {
    opened.handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened.handle) return opened;
    opened.said += (opened.said.empty() ? "" : "; ") + std::string(dlerror());
  }
  return opened;
}

template <class Function>
void resolve(void* handle, const char* name, Function& function, std::vector<std::string>& missing) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  if (!function) missing.emplace_back(name);
}

}  // namespace

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

NcclLibrary load_nccl(const std::string& path) {
  const Opened opened = open_library(path);
  if (!opened.handle)
    throw EnvironmentError(fmt::format(
        "there is no NCCL library: {}; install one (pip install nvidia-nccl-cu13), or name it with --library "
        "or {}",
        opened.said, kVariable));
  NcclLibrary library;
  std::vector<std::string> missing;
  NcclFunctions& call = library.call;
  resolve(opened.handle, "ncclGetVersion", call.get_version, missing);
  resolve(opened.handle, "ncclGetUniqueId", call.get_unique_id, missing);
  resolve(opened.handle, "ncclCommInitRank", call.comm_init_rank, missing);
  resolve(opened.handle, "ncclCommDestroy", call.comm_destroy, missing);
  resolve(opened.handle, "ncclCommAbort", call.comm_abort, missing);
  resolve(opened.handle, "ncclCommGetAsyncError", call.comm_get_async_error, missing);
  resolve(opened.handle, "ncclGetErrorString", call.get_error_string, missing);
  resolve(opened.handle, "ncclGetLastError", call.get_last_error, missing);
  resolve(opened.handle, "ncclGroupStart", call.group_start, missing);
  resolve(opened.handle, "ncclGroupEnd", call.group_end, missing);
  resolve(opened.handle, "ncclAllReduce", call.all_reduce, missing);
  resolve(opened.handle, "ncclReduce", call.reduce, missing);
  resolve(opened.handle, "ncclReduceScatter", call.reduce_scatter, missing);
  resolve(opened.handle, "ncclAllGather", call.all_gather, missing);
  resolve(opened.handle, "ncclBroadcast", call.broadcast, missing);
  resolve(opened.handle, "ncclSend", call.send, missing);
  resolve(opened.handle, "ncclRecv", call.recv, missing);
  resolve(opened.handle, "ncclRedOpCreatePreMulSum", call.redop_create_premulsum, missing);
  resolve(opened.handle, "ncclRedOpDestroy", call.redop_destroy, missing);
  Dl_info where{};
  if (call.get_version && dladdr(reinterpret_cast<void*>(call.get_version), &where) && where.dli_fname)
    library.path = where.dli_fname;
  const std::string named = library.path.empty() ? path : library.path;
  if (!missing.empty())
    throw EnvironmentError(
        fmt::format("{} is no NCCL library of 2.18 or later: it lacks {}; name another with --library", named,
                    fmt::join(missing, ", ")));
  if (call.get_version(&library.version) != ncclSuccess || library.version < kLeastVersion)
    throw EnvironmentError(fmt::format("{} is NCCL {}; allowed is 2.18 or later; name another with --library", named,
                                       nccl_version_text(library.version)));
  return library;
}

}  // namespace busbw
