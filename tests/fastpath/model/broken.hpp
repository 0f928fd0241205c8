#pragma once
#include <stdexcept>

namespace busbw::fastpath::model {

/// Error for a violation of the protocol. The message describes the violation.
class Broken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace busbw::fastpath::model
