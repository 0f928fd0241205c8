// Opens the library, and makes the messages about missing functions and NCCL's errors.
#include "backends/nccl/cuda/nccl_library.hpp"

#include <fmt/format.h>

namespace busbw {

std::string missing_function_error(const OpenedLibrary& library, const char* name) {
  return fmt::format("{} is required, but {} lacks it; name another library with --library", name, library.name_text());
}

std::string NcclLibrary::last_error() const {
  if (!call.get_last_error) return {};
  const char* const text = call.get_last_error(nullptr);
  return text ? text : "";
}

NcclLibrary::NcclLibrary(const std::string& option)
    : OpenedLibrary(open_nccl(library_search(option, process_environment))) {}

}  // namespace busbw
