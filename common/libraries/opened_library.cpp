// Functions and version of an opened library, and the search for libraries in installed Python packages.
#include "common/libraries/opened_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <system_error>

#include "common/support/error.hpp"

namespace busbw {
namespace {

// NCCL reports its versions up to 2.8.4 in the form 2804, and its versions from 2.9.6 on in the form 20906. Numbers
// outside these ranges belong to libraries that are not NCCL.
constexpr int kFirstOldVersion = 2000;
constexpr int kLastOldVersion = 2999;
constexpr int kFirstNewVersion = 20900;

}  // namespace

void* OpenedLibrary::find(const char* function, int since) const noexcept {
  const bool is_too_old = is_nccl_version(version) && version < since;
  return is_too_old ? nullptr : dlsym(handle, function);
}

void OpenedLibrary::read_version(std::string_view setting) {
  const auto get_version = reinterpret_cast<int (*)(int*)>(find("ncclGetVersion"));
  if (const int result = get_version(&version); result != 0)
    throw EnvironmentError(
        fmt::format("{} does not report its version (ncclGetVersion: error {}); name another library with {}", path,
                    result, setting));
}

std::string OpenedLibrary::name_text() const { return fmt::format("NCCL {} ({})", nccl_version_text(version), path); }

std::string file_containing(const void* address) {
  Dl_info info{};
  const bool is_found = dladdr(address, &info) != 0 && info.dli_fname != nullptr;
  return is_found ? info.dli_fname : "";
}

std::vector<std::string> wheel_libraries(const std::filesystem::path& python_environment) {
  return packaged_files(python_environment, kWheelLibrary);
}

std::vector<std::string> packaged_files(const std::filesystem::path& python_environment,
                                        const std::filesystem::path& file) {
  std::vector<std::filesystem::path> python_folders;
  std::error_code error;
  for (const auto& folder : std::filesystem::directory_iterator(python_environment / "lib", error))
    if (folder.path().filename().string().starts_with("python3")) python_folders.push_back(folder.path());
  std::ranges::sort(python_folders);
  std::vector<std::string> files;
  for (const auto& folder : python_folders) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const auto path = folder / packages / file;
      if (std::filesystem::exists(path, error)) files.push_back(path.string());
    }
  }
  return files;
}

bool is_nccl_version(int version) {
  return (version >= kFirstOldVersion && version <= kLastOldVersion) || version >= kFirstNewVersion;
}

std::string nccl_version_text(int version) {
  if (version >= kFirstOldVersion && version <= kLastOldVersion)
    return fmt::format("{}.{}.{}", version / 1000, version / 100 % 10, version % 100);
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace busbw
