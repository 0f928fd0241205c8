# Embeds the default tables in the library: writes a source file with the function default_table_text() and sets
# `fastpath_tables_source` to its path. tables/sm_90.txt is for GPUs of compute capability 9. A file
# tables/sm_90_without_nvls.txt replaces it if NCCL does not use NVLS (NVLink multicast).
set(fastpath_tables_source ${CMAKE_CURRENT_BINARY_DIR}/default_tables.cpp)
set(cases "")

# Appends `condition` and the return of the table tables/`name`.txt to the cases of the switch.
macro(append_table condition name)
  set(file ${CMAKE_CURRENT_LIST_DIR}/tables/${name}.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  string(APPEND cases "      ${condition}return R\"table(${text})table\";\n")
endmacro()

foreach(major 8 9 10)
  string(APPEND cases "    case ${major}:\n")
  if(EXISTS ${CMAKE_CURRENT_LIST_DIR}/tables/sm_${major}0_without_nvls.txt)
    append_table("if (nvls_is_off) " sm_${major}0_without_nvls)
  endif()
  append_table("" sm_${major}0)
endforeach()
file(CONFIGURE OUTPUT ${fastpath_tables_source} CONTENT [[
#include "fastpath/choice/table.hpp"

namespace busbw::fastpath {

std::string_view default_table_text(int compute_capability_major, bool nvls_is_off) {
  switch (compute_capability_major) {
@cases@  }
  return {};
}

}  // namespace busbw::fastpath
]] @ONLY)
