#pragma once
// Requested element types that the backend cannot measure. If the user named the type (-d half), the run ends with an
// error. With -d all, the unsupported types are skipped.
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "collectives/collective.hpp"
#include "options/sweep.hpp"

namespace busbw {

/// A requested type that the backend cannot measure.
struct UnsupportedType {
  Dtype dtype = Dtype::float32;
  Limitation limitation;  // reason and remedy

  static auto members(auto& self) { return std::tie(self.dtype, self.limitation.reason, self.limitation.remedy); }
};

/// Types of `-d all` that the backend does not support with the collective. Throws EnvironmentError if the user named
/// one type and the backend does not support this type.
std::vector<UnsupportedType> unsupported_types(const DataChoice& data, const Collective& collective,
                                               const Backend& backend);

/// Returns the types alone, in the same order.
std::vector<Dtype> dtypes_of(const std::vector<UnsupportedType>& types);

/// Returns `data` without the unsupported types.
DataChoice exclude_types(DataChoice data, const std::vector<Dtype>& unsupported);

/// Notes about skipped types: one sentence per reason.
std::vector<std::string> excluded_type_notes(const std::vector<UnsupportedType>& unsupported);

}  // namespace busbw
