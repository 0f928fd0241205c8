#pragma once
// Text stream for readers that may be slow or close: a terminal, a pipe.
#include <functional>
#include <string_view>
#include <utility>

namespace busbw {

/// Writes to a descriptor that it does not own. Throws Error(ExitCode::output_closed) once if the reader closed it, and
/// writes nothing after that. SIGPIPE must be ignored.
class TextStream {
 public:
  /// `should_drop` is polled while the reader does not read. True drops the remaining text instead of waiting.
  explicit TextStream(int descriptor, std::function<bool()> should_drop = {})
      : descriptor_(descriptor), should_drop_(std::move(should_drop)) {}

  void write(std::string_view text);

 private:
  void wait_until_writable();

  int descriptor_;
  std::function<bool()> should_drop_;
  bool failed_ = false;
};

}  // namespace busbw
