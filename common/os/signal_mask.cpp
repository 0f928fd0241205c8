// Blocks the signals that end the program, so that they interrupt no code, and waits for them explicitly.
#include "common/os/signal_mask.hpp"

#include <pthread.h>

#include <ctime>

namespace busbw {
namespace {

/// Signals that end the program, and SIGCHLD.
sigset_t watched_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&signals, signal);
  // nohup starts a program with SIGHUP ignored. The run must then survive a closed terminal.
  struct sigaction hangup{};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);
  return signals;
}

/// Returns the signal, or -1 if none arrived in time.
int wait_for_signal(int limit_ms) {
  const sigset_t signals = watched_signals();
  const timespec limit{limit_ms / 1000, limit_ms % 1000 * 1'000'000L};
  return sigtimedwait(&signals, nullptr, &limit);
}

}  // namespace

SignalMask::SignalMask() {
  const sigset_t signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, &previous_mask_);
  // Writes to a closed pipe or beyond the file size limit then fail with an error that has a message.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  // Some launchers ignore SIGCHLD. Exit statuses of children would then be lost.
  std::signal(SIGCHLD, SIG_DFL);
}

SignalMask::~SignalMask() {
  // Discard a second Ctrl-C that arrives while the outputs are closed.
  while (wait_for_signal(0) > 0) {
  }
  pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
}

std::optional<Error> wait_for_interrupt(int limit_ms) {
  switch (wait_for_signal(limit_ms)) {
    case SIGINT: return Error(ExitCode::interrupted, "interrupted");
    case SIGHUP:
    case SIGTERM: return Error(ExitCode::terminated, "terminated");
    default: return std::nullopt;
  }
}

void throw_if_interrupted() {
  if (const auto error = wait_for_interrupt(0)) throw *error;
}

void block_all_signals() {
  sigset_t all_signals;
  sigfillset(&all_signals);
  pthread_sigmask(SIG_BLOCK, &all_signals, nullptr);
}

}  // namespace busbw
