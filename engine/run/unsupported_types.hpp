#pragma once
// Element types that were asked for and cannot be measured here: one that was named ends the run, of all they are left
// out.
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "collectives/collective.hpp"
#include "options/sweep.hpp"

namespace busbw {

struct UnsupportedType {
  Dtype dtype = Dtype::float32;
  Limitation lack;
};

/// Those of `-d all` that the backend cannot do with the collective. Throws EnvironmentError where one type was named,
/// and it is that.
std::vector<UnsupportedType> unsupported_types(const DataChoice& data, const Collective& collective, const Backend& backend);

std::vector<Dtype> dtypes_of(const std::vector<UnsupportedType>& types);

/// What is left to measure.
DataChoice exclude_types(DataChoice data, const std::vector<Dtype>& lacked);

/// What a person is told of types that are left out: one sentence for each reason.
std::vector<std::string> excluded_type_notes(const std::vector<UnsupportedType>& lacked);

}  // namespace busbw
