#pragma once
#include <stdexcept>

namespace busbw::fastpath::model {

/// The protocol was broken: what happened, in one sentence.
class Broken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace busbw::fastpath::model
