#pragma once
// Text stream to a terminal or a pipe. The reader may be slow, or may have closed its end. The table and records on
// standard output use this stream.
#include <functional>
#include <string_view>
#include <utility>

namespace busbw {

/// Writes to a descriptor that it does not own. If the reader has closed it, throws Error(ExitCode::output_closed) once
/// and writes nothing after that. SIGPIPE must be ignored.
class TextStream {
 public:
  /// `should_drop` is polled while a write waits for the reader. If `should_drop` returns true, the write fails as if
  /// the reader had closed the descriptor.
  explicit TextStream(int descriptor, std::function<bool()> should_drop = {})
      : descriptor_(descriptor), should_drop_(std::move(should_drop)) {}

  /// Writes all of `text`. Also throws EnvironmentError for other write errors.
  void write(std::string_view text);

 private:
  void wait_until_writable();

  int descriptor_;
  std::function<bool()> should_drop_;
  bool failed_ = false;  // an error was thrown; later text is ignored
};

}  // namespace busbw
