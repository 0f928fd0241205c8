#pragma once
// Library that a rank measures, as records name it.
#include <optional>
#include <string>
#include <tuple>

namespace busbw {

/// Version, path and hash of a measured library.
struct LibraryInfo {
  std::string version;  // "2.28.9"
  std::string path;     // path of the library file
  std::optional<std::string> sha256;  // hash of the file, in hexadecimal; none if the file could not be read

  static auto members(auto& self) { return std::tie(self.version, self.path, self.sha256); }
};

}  // namespace busbw
