# Precompiles the headers that most files include, which saves a fifth of a build under a sanitizer. Only some builds
# use it, because it hides missing #include lines and makes GCC print other warnings about string copies.
option(BUSBW_PRECOMPILE "Precompile the headers that most files include" OFF)

# Precompiles the headers for a target. ARGN: additional headers.
function(busbw_precompile target)
  if(BUSBW_PRECOMPILE)
    target_precompile_headers(
      ${target}
      PRIVATE
      <algorithm>
      <array>
      <chrono>
      <cmath>
      <condition_variable>
      <cstring>
      <exception>
      <filesystem>
      <fstream>
      <functional>
      <map>
      <memory>
      <mutex>
      <numeric>
      <optional>
      <set>
      <span>
      <stdexcept>
      <string>
      <string_view>
      <thread>
      <vector>
      <fmt/format.h>
      <fmt/ranges.h>
      ${ARGN})
  endif()
endfunction()

# Like busbw_precompile, for tests. Skips the main file, which must include doctest itself to hold its implementation.
function(busbw_precompile_tests target main)
  busbw_precompile(${target} <doctest/doctest.h>)
  set_source_files_properties(${main} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
