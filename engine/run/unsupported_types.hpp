#pragma once
// Element types that were asked for and cannot be measured here: one that was named ends the run, of all they are left
// out.
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "collectives/collective.hpp"
#include "options/sweep.hpp"

namespace busbw {

struct LackedType {
  Dtype dtype = Dtype::float32;
  Lack lack;
};

/// Those of `-d all` that the backend cannot do with the collective. Throws EnvironmentError where one type was named,
/// and it is that.
std::vector<LackedType> lacked_types(const DataChoice& data, const Collective& collective, const Backend& backend);

std::vector<Dtype> dtypes_of(const std::vector<LackedType>& types);

/// What is left to measure.
DataChoice without(DataChoice data, const std::vector<Dtype>& lacked);

/// What a person is told of types that are left out: one sentence for each reason.
std::vector<std::string> notes_on(const std::vector<LackedType>& lacked);

}  // namespace busbw
