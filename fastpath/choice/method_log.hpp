#pragma once
// BUSBW_FASTPATH_LOG: which method ran for each size, in lines that are written whole.
#include <atomic>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "fastpath/choice/table.hpp"
#include "fastpath/schedule/collective.hpp"

namespace busbw::fastpath {

/// An operation that has been started.
struct StartedOperation {
  Collective collective = Collective::all_reduce;
  std::string_view type;           // "half"
  std::size_t size_bytes = 0;      // as nccl-tests counts
  int ranks = 0;
  bool in_place = false;
  MethodConfig choice;                   // how it is done
};

/// Any thread may write. Nothing is open between two lines, so that a fork shares nothing with its parent and a file
/// comes into being with its first line.
class MethodLog {
 public:
  /// `place` is "stderr" or a file, in which "%p" stands for the process id; empty: nothing is ever written.
  explicit MethodLog(std::string place) : place_(std::move(place)) {}

  /// Cheap, for callers that would have to find out what to say.
  bool is_on() const noexcept { return !place_.empty(); }
  /// A line, if the same has not been started before.
  void log_operation(const StartedOperation& what) noexcept;
  /// A line of its own.
  void log_message(std::string_view sentence) noexcept;

 private:
  void write(std::string_view sentence);

  const std::string place_;
  std::mutex mutex_;
  std::set<std::string> said_;
  std::atomic<bool> complained_{false};
};

/// This process's, at the place that its settings name.
MethodLog& log() noexcept;

}  // namespace busbw::fastpath
