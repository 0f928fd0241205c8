#pragma once
// Finds and loads the real NCCL when it is first needed. This library may lie under NCCL's file name, so a marker
// function distinguishes it from NCCL.
#include <string>
#include <vector>

#include "common/libraries/opened_library.hpp"
#include "common/os/environment.hpp"

namespace busbw::fastpath {

/// Function that every libbusbw_nccl.so exports, under any file name, and no NCCL exports.
inline constexpr const char* kMarkerFunction = "ncclFastPathOfBusbw";

/// Places where the real library is searched, in this order. The first usable library is taken. An empty place is
/// skipped.
struct LibrarySearch {
  std::string required_file;             // BUSBW_FASTPATH_NCCL; if it is not empty, no other place is searched
  bool use_loaded = true;                // search the NCCL that the program has loaded
  std::string engine_library;            // BUSBW_NCCL_LIBRARY; skipped if it is this library
  std::vector<std::string> wheel_files;  // libraries of nvidia-nccl-cu* near this library and near the program
  std::string system_library;            // file name that the loader searches; the loader may find this library
  std::vector<std::string> folders;      // LD_LIBRARY_PATH and system folders: the real library may be there too
};

/// Returns the libraries of NCCL wheels in the environments and package folders that contain these files. Each library
/// occurs once, in the order of the files.
std::vector<std::string> wheels_near(const std::vector<std::string>& files);

/// Returns the places for this process, from the environment and the paths of this library and the program.
LibrarySearch library_search(Environment environment);

/// Opens the first usable library. Throws EnvironmentError if the search finds none.
OpenedLibrary open_real_library(const LibrarySearch& search);

/// Returns the real library of this process. Null if none is found. The error is printed to stderr once, and the next
/// call searches again, because the program may load the library later.
const OpenedLibrary* real_library() noexcept;

}  // namespace busbw::fastpath
