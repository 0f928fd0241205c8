#pragma once
// Finds and opens the library to measure at run time: NCCL, or a library with its interface. This code compiles without
// NCCL's header.
#include <string>
#include <vector>

#include "common/os/environment.hpp"

namespace busbw {

/// Places to search, in this order: the user's choice, LD_PRELOAD, the Python environment, the system.
struct LibrarySearch {
  std::string named_path;                       // path that the user named, or empty
  std::string path_source;                      // "--library" or "BUSBW_NCCL_LIBRARY"; empty without a path
  std::vector<std::string> wheel_files;         // existing files of the wheel nvidia-nccl-cu*
  std::string system_library = "libnccl.so.2";  // name for the loader
};

/// Determines the places to search. `option`, the value of --library, has precedence over BUSBW_NCCL_LIBRARY; empty
/// means not set.
LibrarySearch library_search(const std::string& option, Environment environment);

/// A library that stays loaded.
struct OpenedLibrary {
  void* handle = nullptr;  // of dlopen
  int version = 0;         // from its ncclGetVersion
  std::string path;        // of the file, with links resolved

  /// Returns the address of a function, or null if the library has none. `since` is the first NCCL version with the
  /// function. Older versions also return null, because a library that is loaded in front of them may export the name
  /// nevertheless.
  void* find(const char* function, int since = 0) const;
  /// Name for messages: "NCCL 2.28.9 (/usr/lib/libnccl.so.2)".
  std::string name_text() const;
};

/// Opens the library. Throws EnvironmentError if none is found, if it lacks a function that every run needs, or if it
/// is NCCL before 2.18. Functions for some collectives and flags may be absent.
OpenedLibrary open_nccl(const LibrarySearch& search);

/// True if the number is a version of NCCL. Other libraries with its interface may have other numbers, which say
/// nothing about their functions.
bool is_nccl_version(int version);

/// "2.28.9" for 22809, "2.8.4" for 2804. Other libraries may use other numbers: "0.9.0" for 900.
std::string nccl_version_text(int version);

}  // namespace busbw
