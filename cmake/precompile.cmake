# What most files include, read once for all of a target's, which saves a fifth of a build under a sanitizer. It also hides
# that a file lacks an #include, and moves where GCC sees strings copied, of which it then warns: other builds do without.
option(BUSBW_PRECOMPILE "Precompile the headers that most files include" OFF)

# ARGN: further headers of this target.
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

# As busbw_precompile; the one file of the tests that holds doctest's own code has to be the first that includes it.
function(busbw_precompile_tests target main)
  busbw_precompile(${target} <doctest/doctest.h>)
  set_source_files_properties(${main} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
