# The tables that come with the library become part of it: tables/sm_90.txt is the answer for GPUs of compute capability 9.
# Sets `fastpath_tables_source`, a source file to compile.
set(fastpath_tables_source ${CMAKE_CURRENT_BINARY_DIR}/default_tables.cpp)
set(cases "")
foreach(major 8 9 10)
  set(file ${CMAKE_CURRENT_LIST_DIR}/tables/sm_${major}0.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  string(APPEND cases "    case ${major}: return R\"table(${text})table\";\n")
endforeach()
file(CONFIGURE OUTPUT ${fastpath_tables_source} CONTENT [[
#include "fastpath/table.hpp"

namespace busbw::fastpath {

std::string_view default_table_text(int compute_capability_major) {
  switch (compute_capability_major) {
@cases@  }
  return {};
}

}  // namespace busbw::fastpath
]] @ONLY)
