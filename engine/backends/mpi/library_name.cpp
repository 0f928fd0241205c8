#include "backends/mpi/library_name.hpp"

#include <algorithm>
#include <array>

namespace busbw {
namespace {

struct VersionPattern {
  std::string_view start;  // text before the version
  std::string_view name;
};
constexpr std::array<VersionPattern, 4> kForms{{{"Open MPI v", "Open MPI"},
                                                {"MPICH Version:", "MPICH"},
                                                {"Intel(R) MPI Library ", "Intel MPI"},
                                                {"MVAPICH2 Version      :", "MVAPICH2"}}};
constexpr std::string_view kBlanks = " \t";

}  // namespace

std::string mpi_library_name(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  for (const VersionPattern& form : kForms) {
    if (!line.starts_with(form.start)) continue;
    std::string_view rest = line.substr(form.start.size());
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(kBlanks)));
    const std::string_view version = rest.substr(0, rest.find_first_of(" \t,"));
    if (!version.empty()) return std::string(form.name) + " " + std::string(version);
  }
  return std::string(line);
}

}  // namespace busbw
