#pragma once
// Captures the output of a text sink in memory.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "output/nccl_tests_text.hpp"

namespace busbw::test {

class CapturedText {
 public:
  CapturedText() : descriptor_(::memfd_create("captured", 0)), sink_(descriptor_) { REQUIRE(descriptor_ >= 0); }
  ~CapturedText() { ::close(descriptor_); }
  CapturedText(const CapturedText&) = delete;
  CapturedText& operator=(const CapturedText&) = delete;

  NcclTestsText& sink() { return sink_; }
  std::string text() const {
    std::string text(static_cast<std::size_t>(::lseek(descriptor_, 0, SEEK_END)), '\0');
    CHECK(::pread(descriptor_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    return text;
  }

 private:
  int descriptor_;
  NcclTestsText sink_;
};

}  // namespace busbw::test
