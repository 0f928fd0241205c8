#pragma once
// A library with NCCL's interface, opened at run time, and the search for libraries in Python environments. This code
// compiles without NCCL's header.
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace busbw {

/// Path of the library of a wheel nvidia-nccl-cu* in a folder of Python packages.
inline constexpr const char* kWheelLibrary = "nvidia/nccl/lib/libnccl.so.2";

/// A library that stays loaded.
struct OpenedLibrary {
  void* handle = nullptr;  // of dlopen
  int version = 0;         // from its ncclGetVersion
  std::string path;        // of the file

  /// Returns the address of a function, or null if the library has none. `since`: the first NCCL version with the
  /// function. With an older version the result is null even if dlsym finds the name: the address could be that of a
  /// preloaded library.
  void* find(const char* function, int since = 0) const noexcept;
  /// Sets `version`. The library must have ncclGetVersion. Throws EnvironmentError if this function fails. `setting`:
  /// name of the option or variable that selects the library, for the message.
  void read_version(std::string_view setting);
  /// Name for messages: "NCCL 2.28.9 (/usr/lib/libnccl.so.2)".
  std::string name_text() const;
};

/// Returns the file of the loaded library or program that contains the address. Empty if it is unknown.
std::string file_containing(const void* address);

/// Returns the libraries of wheels in a Python environment, as packaged_files() does.
std::vector<std::string> wheel_libraries(const std::filesystem::path& python_environment);

/// Returns the copies of a package's file that exist in a Python environment, in the alphabetical order of the folders
/// of the Python versions. `file`: path in a folder of packages.
std::vector<std::string> packaged_files(const std::filesystem::path& python_environment,
                                        const std::filesystem::path& file);

/// True if the number is a version of NCCL. Other libraries with its interface may have other numbers, which say
/// nothing about their functions.
bool is_nccl_version(int version);

/// "2.28.9" for 22809, "2.8.4" for 2804. Other libraries may use other numbers: "0.9.0" for 900.
std::string nccl_version_text(int version);

}  // namespace busbw
