#pragma once
// Text for a reader who may be slow or go away: a terminal, a pipe.
#include <functional>
#include <string_view>
#include <utility>

namespace busbw {

/// Writes to a descriptor that belongs to someone else. Throws Error(Exit::output_closed) once when the reader has gone
/// (SIGPIPE must be ignored) and writes nothing after that.
class TextStream {
 public:
  /// `gives_up`: asked while the reader does not read; true drops the rest instead of waiting for it.
  explicit TextStream(int descriptor, std::function<bool()> gives_up = {})
      : descriptor_(descriptor), gives_up_(std::move(gives_up)) {}

  void write(std::string_view text);

 private:
  void wait_for_room();

  int descriptor_;
  std::function<bool()> gives_up_;
  bool failed_ = false;
};

}  // namespace busbw
