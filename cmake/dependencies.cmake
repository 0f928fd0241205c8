# C++ libraries. An installed library of the distribution is used. Otherwise a pinned version is fetched, and its hash is
# checked. Without a network, -DFETCHCONTENT_SOURCE_DIR_FMT=<unpacked source> (and so on) sets the path of a source.
#
# Every library has a target here, with its headers as system headers. Only fmt is compiled.
include(FetchContent)
if(POLICY CMP0135)
  cmake_policy(SET CMP0135 NEW)
endif()

# Unpacks a source without running its CMake project. Sets <name>_SOURCE_DIR to its directory.
macro(busbw_fetch name url sha256)
  message(STATUS "${name}: not installed, fetching ${url}")
  FetchContent_Declare(${name} URL ${url} URL_HASH SHA256=${sha256} SOURCE_SUBDIR only-unpack)
  FetchContent_MakeAvailable(${name})
endmacro()

add_library(busbw_fmt INTERFACE)
find_package(fmt 8.1 QUIET)
if(fmt_FOUND AND NOT BUSBW_PORTABLE) # a portable program must not need the shared library of the distribution
  target_link_libraries(busbw_fmt INTERFACE fmt::fmt)
else()
  if(fmt_FOUND)
    # Distributions have fmt only as a shared library. Header-only fmt in every file would double the build time, so one
    # source compiles the headers.
    get_target_property(fmt_include fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
    set(fmt_source ${PROJECT_SOURCE_DIR}/cmake/fmt.cpp)
  else()
    busbw_fetch(fmt https://github.com/fmtlib/fmt/archive/9.1.0.tar.gz
                5dea48d1fcddc3ec571ce2058e13910a0d4a6bab4cc09a809d8b1dd1c88ae6f2)
    set(fmt_include ${fmt_SOURCE_DIR}/include)
    set(fmt_source ${fmt_SOURCE_DIR}/src/format.cc)
  endif()
  add_library(busbw_fmt_static STATIC ${fmt_source})
  set_target_properties(busbw_fmt_static PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(busbw_fmt_static SYSTEM PUBLIC ${fmt_include})
  target_link_libraries(busbw_fmt INTERFACE busbw_fmt_static)
endif()

add_library(busbw_cli11 INTERFACE)
find_package(CLI11 2.1 QUIET)
if(CLI11_FOUND)
  target_link_libraries(busbw_cli11 INTERFACE CLI11::CLI11)
else()
  busbw_fetch(cli11 https://github.com/CLIUtils/CLI11/archive/v2.4.2.tar.gz
              f2d893a65c3b1324c50d4e682c0cdc021dd0477ae2c048544f39eed6654b699a)
  target_include_directories(busbw_cli11 SYSTEM INTERFACE ${cli11_SOURCE_DIR}/include)
endif()

add_library(busbw_json INTERFACE)
find_package(nlohmann_json 3.10 QUIET)
if(nlohmann_json_FOUND)
  target_link_libraries(busbw_json INTERFACE nlohmann_json::nlohmann_json)
else()
  busbw_fetch(nlohmann_json https://github.com/nlohmann/json/archive/v3.11.3.tar.gz
              0d8ef5af7f9794e3263480193c491549b2ba6cc74bb018906202ada498a79406)
  target_include_directories(busbw_json SYSTEM INTERFACE ${nlohmann_json_SOURCE_DIR}/single_include)
endif()

if(BUSBW_BUILD_TESTS)
  add_library(busbw_doctest INTERFACE)
  find_package(doctest 2.4 QUIET)
  if(doctest_FOUND)
    target_link_libraries(busbw_doctest INTERFACE doctest::doctest)
  else()
    busbw_fetch(doctest https://github.com/doctest/doctest/archive/v2.4.11.tar.gz
                632ed2c05a7f53fa961381497bf8069093f0d6628c5f26286161fbd32a560186)
    target_include_directories(busbw_doctest SYSTEM INTERFACE ${doctest_SOURCE_DIR})
  endif()
endif()
