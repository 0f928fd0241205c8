#pragma once
// Signals that end the program, received by polling. There is no signal handler.
#include <csignal>
#include <optional>

#include "common/support/error.hpp"

namespace busbw {

/// Blocks the signals that end a program, so that it polls for them, and turns SIGPIPE and SIGXFSZ into write errors.
/// May be nested. Create one before outputs are opened, so that Ctrl-C cannot leave them partial.
class SignalMask {
 public:
  SignalMask();
  ~SignalMask();
  SignalMask(const SignalMask&) = delete;
  SignalMask& operator=(const SignalMask&) = delete;

 private:
  sigset_t previous_mask_{};
};

/// Waits for a signal that a SignalMask blocks. Returns the error that ends the program. Returns nothing after
/// `limit_ms`, or at once if SIGCHLD arrives. The kernel sends SIGCHLD when a child process ends, and a rank's thread
/// sends it by pthread_kill when the thread ends.
std::optional<Error> wait_for_interrupt(int limit_ms);

/// Throws the error of `wait_for_interrupt` if a signal is pending.
void throw_if_interrupted();

/// Blocks all signals in the calling thread, so that the main thread receives them.
void block_all_signals();

}  // namespace busbw
