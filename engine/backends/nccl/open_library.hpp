#pragma once
// Which library is measured: NCCL, or one with its interface, found and opened when the program runs. What can be said
// of it without NCCL's header is said here.
#include <string>
#include <vector>

#include "common/os/environment.hpp"

namespace busbw {

/// Where to look, in this order: what a person named, what LD_PRELOAD brought, the Python environment, the system.
struct LibrarySearch {
  std::string named;                         // a path, or empty
  std::string named_by;                      // "--library", "BUSBW_NCCL_LIBRARY"
  std::vector<std::string> wheel_files;   // of the wheel nvidia-nccl-cu*: files that exist
  std::string system_library = "libnccl.so.2";    // what the loader looks for
};

/// `option` (--library) goes before BUSBW_NCCL_LIBRARY; empty means not given.
LibrarySearch library_search(const std::string& option, Environment environment);

/// A library that stays loaded.
struct OpenedLibrary {
  void* handle = nullptr;  // of the loader
  int version = 0;         // as its ncclGetVersion gives it
  std::string path;        // of the file, links followed

  /// Null where it has no function of that name, and where it is an NCCL from before `since`, the version that brought
  /// it: a library that stands before an older one may export it all the same.
  void* find(const char* function, int since = 0) const;
  /// "NCCL 2.28.9 (/usr/lib/libnccl.so.2)"
  std::string named() const;
};

/// Throws EnvironmentError where there is no library, where it lacks what every collective needs, and where it is NCCL
/// before 2.18. What only some collectives and flags need it may lack.
OpenedLibrary open_nccl(const LibrarySearch& search);

/// Whether a version is one of NCCL's. Other libraries with its interface may count in their own way, and then a
/// version says nothing of what they can do.
bool is_nccl_version(int version);

/// "2.28.9" of 22809, "2.8.4" of 2804. Libraries with NCCL's interface may count in their own way: "0.9.0" of 900.
std::string nccl_version_text(int version);

}  // namespace busbw
