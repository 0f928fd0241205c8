#pragma once
// Helpers for error messages.
#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "common/support/error.hpp"

namespace busbw {

/// Message of the E that `call` throws. Fails the test if it throws nothing.
template <class E, class Call>
std::string sentence_of(Call call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  FAIL_CHECK("nothing was thrown");
  return {};
}

inline void check_names(const std::string& sentence, std::initializer_list<std::string_view> parts) {
  CAPTURE(sentence);
  for (const std::string_view part : parts) {
    CAPTURE(part);
    CHECK(sentence.find(part) != std::string::npos);
  }
}

}  // namespace busbw
