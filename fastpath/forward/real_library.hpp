#pragma once
// Where the real NCCL is: found when it is first needed, never before, and never ourselves.
#include <string>
#include <vector>

#include "common/os/environment.hpp"

namespace busbw::fastpath {

/// Exported by every libbusbw_nccl.so, under whatever name the file lies, and by no NCCL.
inline constexpr const char* kMarker = "ncclFastPathOfBusbw";

/// A library that stays loaded.
struct RealLibrary {
  void* handle = nullptr;  // of the loader
  std::string path;        // of the file
  int version = 0;         // as its own ncclGetVersion gives it

  /// Null where it has no function of that name.
  void* find(const char* function) const noexcept;
  /// "NCCL 2.28.9 (/usr/lib/libnccl.so.2)"
  std::string named() const;
};

/// Where to look, in this order.
struct LibrarySearch {
  std::string named;                  // BUSBW_FASTPATH_NCCL: this one or none
  bool loaded = true;  // the program's own: what comes after us in its libraries, or any libnccl.so.2 it loaded
  std::string of_engine;  // BUSBW_NCCL_LIBRARY, unless that is us
  std::vector<std::string> wheels;  // of nvidia-nccl-cu* near us and near the program
  std::string of_system;  // what the loader looks for
  std::vector<std::string> folders;  // where a loader looks that found us under the name of the real one
};

/// The libraries of wheels in the environments and packages that hold these files, each once, in the order of the
/// files.
std::vector<std::string> wheels_near(const std::vector<std::string>& files);

/// What this process's environment says, and where this library and the program lie.
LibrarySearch library_search(Environment environment);

/// Throws EnvironmentError, one sentence with the remedy, where there is none.
RealLibrary open_real_library(const LibrarySearch& search);

/// This process's real library; null where there is none, which is said once on stderr and looked for again at the next
/// call: the program may load it later.
const RealLibrary* real_library() noexcept;

}  // namespace busbw::fastpath
