#pragma once
// RAII guard that always opens a closed gate.
#include <exception>

#include "backends/backend.hpp"

namespace busbw {

/// Closes a gate. The destructor opens it if `open` was not called.
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
      // A destructor must not throw. The exception that left the scope reports the failure.
    }
  }
  /// Opens the gate. Throws if that fails, unlike the destructor.
  void open() {
    is_open_ = true;
    gate_.open();
  }

 private:
  Gate& gate_;
  bool is_open_ = false;
};

}  // namespace busbw
