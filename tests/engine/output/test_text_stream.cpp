#include "output/text_stream.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>

#include "common/support/error.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

/// A pipe. SIGPIPE is ignored.
struct Pipe {
  Pipe() : before(std::signal(SIGPIPE, SIG_IGN)) { REQUIRE(pipe(ends) == 0); }
  ~Pipe() {
    close_reading();
    close(ends[1]);
    std::signal(SIGPIPE, before);
  }
  void close_reading() {
    if (ends[0] >= 0) close(std::exchange(ends[0], -1));
  }
  int ends[2];
  void (*before)(int);
};

std::string everything_from(int descriptor, std::size_t bytes) {
  std::string text;
  char part[1000];
  while (text.size() < bytes) {
    const ssize_t got = read(descriptor, part, sizeof part);
    if (got <= 0) break;
    text.append(part, static_cast<std::size_t>(got));
  }
  return text;
}

}  // namespace

TEST_CASE("TextStream: text larger than a pipe waits for its reader and arrives complete") {
  Pipe pipe;
  std::string text;
  for (int i = 0; text.size() < 300'000; ++i) text += std::to_string(i) + "\n";
  std::string heard;
  std::thread reader([&] { heard = everything_from(pipe.ends[0], text.size()); });
  TextStream stream(pipe.ends[1]);
  stream.write(std::string_view(text).substr(0, 1));
  stream.write("");
  stream.write(std::string_view(text).substr(1));
  reader.join();
  CHECK(heard == text);
}

TEST_CASE("TextStream: a closed reader is an error once; later writes do nothing") {
  Pipe pipe;
  pipe.close_reading();
  TextStream stream(pipe.ends[1]);
  try {
    stream.write("hello");
    FAIL_CHECK("no error");
  } catch (const Error& error) {
    CHECK(error.exit() == ExitCode::output_closed);
  }
  CHECK_NOTHROW(stream.write("more"));
}

TEST_CASE("TextStream: text for a reader that does not read is dropped when the run ends") {
  Pipe pipe;
  int asked = 0;
  TextStream stream(pipe.ends[1], [&] { return ++asked == 2; });
  try {
    stream.write(std::string(1'000'000, 'x'));
    FAIL_CHECK("no error");
  } catch (const Error& error) {
    CHECK(error.exit() == ExitCode::output_closed);
    check_names(error.what(), {"does not read"});
  }
  CHECK(asked == 2);
  CHECK_NOTHROW(stream.write("more"));
}

TEST_CASE("TextStream: a full device is an environment error") {
  const int full = open("/dev/full", O_WRONLY);
  REQUIRE(full >= 0);
  TextStream stream(full);
  check_names(sentence_of<EnvironmentError>([&] { stream.write("hello"); }), {"No space left", "standard output"});
  CHECK_NOTHROW(stream.write("more"));
  close(full);
}
