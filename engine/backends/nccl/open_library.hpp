#pragma once
// Finds and opens the library to measure at run time: NCCL, or a library with its interface. This code compiles without
// NCCL's header.
#include <string>
#include <vector>

#include "common/libraries/opened_library.hpp"
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

/// Opens the library. Throws EnvironmentError if none is found, if it lacks a function that every run needs, or if it
/// is NCCL before 2.18. Functions for some collectives and flags may be absent.
OpenedLibrary open_nccl(const LibrarySearch& search);

}  // namespace busbw
