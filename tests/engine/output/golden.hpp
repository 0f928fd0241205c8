#pragma once
// Golden files: output must equal tests/golden/<name> byte for byte. With BUSBW_UPDATE_GOLDEN=1 in the environment the
// files are written instead. Check the difference before committing it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "temporary_folder.hpp"

namespace busbw::test {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), "cannot read " << path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

inline std::filesystem::path golden_path(const std::string& name) {
  return std::filesystem::path(BUSBW_TEST_DIR) / "golden" / name;
}

inline void check_golden(const std::string& name, const std::string& text) {
  if (std::getenv("BUSBW_UPDATE_GOLDEN") != nullptr) std::ofstream(golden_path(name), std::ios::binary) << text;
  INFO("golden file " << name);
  CHECK(text == read_file(golden_path(name)));
}

}  // namespace busbw::test
