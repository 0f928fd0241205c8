// Removes unsupported element types from -d all, and explains that in notes.
#include "run/unsupported_types.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "common/support/error.hpp"

namespace busbw {

std::vector<UnsupportedType> unsupported_types(const DataChoice& data, const Collective& collective,
                                               const Backend& backend) {
  const bool is_single_type = data.dtypes.size() == 1;
  std::vector<UnsupportedType> unsupported;
  for (const Dtype dtype : data.dtypes) {
    const auto limitation = backend.limitation_of(dtype, collective.reduces());
    if (!limitation) continue;
    if (is_single_type)
      throw EnvironmentError(fmt::format("-d {} (--datatype): {}; {}, or measure another type", name(dtype),
                                         limitation->reason, limitation->remedy));
    unsupported.push_back({dtype, *limitation});
  }
  return unsupported;
}

std::vector<Dtype> dtypes_of(const std::vector<UnsupportedType>& types) {
  std::vector<Dtype> dtypes;
  for (const UnsupportedType& type : types) dtypes.push_back(type.dtype);
  return dtypes;
}

DataChoice exclude_types(DataChoice data, const std::vector<Dtype>& unsupported) {
  std::erase_if(data.dtypes, [&](Dtype dtype) { return std::ranges::find(unsupported, dtype) != unsupported.end(); });
  return data;
}

std::vector<std::string> excluded_type_notes(const std::vector<UnsupportedType>& unsupported) {
  std::map<std::string, std::vector<std::string_view>> names_by_reason;
  for (const UnsupportedType& type : unsupported)
    names_by_reason[fmt::format("{}; {}", type.limitation.reason, type.limitation.remedy)].push_back(name(type.dtype));
  std::vector<std::string> notes;
  for (const auto& [reason, names] : names_by_reason)
    notes.push_back(fmt::format("-d all skips {}: {} to measure {}", fmt::join(names, " and "), reason,
                                names.size() == 1 ? "it" : "them"));
  return notes;
}

}  // namespace busbw
