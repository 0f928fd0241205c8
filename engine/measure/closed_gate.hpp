#pragma once
// A gate that is open in the end, whatever happens behind it.
#include <exception>

#include "backends/backend.hpp"

namespace busbw {

/// Closes a gate. It is open again at the latest when this ends.
class ClosedGate {
 public:
  explicit ClosedGate(Gate& gate) : gate_(gate) { gate_.close(); }
  ClosedGate(const ClosedGate&) = delete;
  ClosedGate& operator=(const ClosedGate&) = delete;
  ~ClosedGate() {
    if (is_open_) return;
    try {
      gate_.open();
    } catch (const std::exception&) {
      // The error that brought us here is already on its way.
    }
  }
  /// What goes wrong in it is thrown; when this ends it is not.
  void open() {
    is_open_ = true;
    gate_.open();
  }

 private:
  Gate& gate_;
  bool is_open_ = false;
};

}  // namespace busbw
