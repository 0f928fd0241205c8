#include "backends/mpi/mpi_calls.hpp"

#include <fmt/format.h>

#include <array>
#include <limits>
#include <string_view>

#include "common/support/error.hpp"

namespace busbw {

void require_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  throw EnvironmentError(fmt::format(
      "{} failed: {}; see what MPI itself wrote, and its own tests of this network", call,
      length > 0 ? std::string_view(text.data(), static_cast<std::size_t>(length)) : "MPI has no words for it"));
}

int mpi_count(std::size_t count) {
  constexpr std::size_t kMax = std::numeric_limits<int>::max();
  if (count > kMax)
    throw UsageError(
        fmt::format("{} elements in one operation: MPI counts up to {}; use a smaller -e or a wider -d", count, kMax));
  return static_cast<int>(count);
}

}  // namespace busbw
