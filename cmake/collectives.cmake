# Writes common/values/collectives.inc from src/busbw/collectives.toml, with a line for each collective:
#
#   BUSBW_COLLECTIVE(name, .field = value, ...)         or BUSBW_FAST_COLLECTIVE(...) if it has fast methods
#
# and common/values/collective_descriptions.inc, with {"name", "description"}, for each.
#
# Also sets `busbw_collectives` to the names.
set(toml ${PROJECT_SOURCE_DIR}/src/busbw/collectives.toml)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${toml})
file(READ ${toml} text)
string(REGEX MATCHALL "name = \"[a-z_]+\"\ndescription = \"[^\"]+\"" descriptions "${text}")
string(REGEX MATCHALL "\\[\\[collective\\]\\]" entries "${text}")
list(LENGTH entries entry_count)
list(LENGTH descriptions description_count)
if(NOT entry_count EQUAL description_count)
  message(FATAL_ERROR "${toml}: each collective needs a `description` on the line below its `name`")
endif()
list(TRANSFORM descriptions REPLACE "name = (.+)\ndescription = (.+)" "{\\1, \\2},\n")
list(JOIN descriptions "" descriptions)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/common/values/collective_descriptions.inc
     CONTENT "${descriptions}" @ONLY)
string(REGEX REPLACE "#[^\n]*|(description|spelling|runs_as_ring|checked_in_place|always_named) = [^\n]*" "" text "${text}") # only Python reads these
string(REGEX REPLACE "\n+([a-z_]+) = ([^\n]+)" ", .\\1 = \\2" text "${text}")
string(REGEX REPLACE "\n+\\[\\[collective\\]\\], .name = \"([a-z_]+)\"([^\n]+)" "BUSBW_COLLECTIVE(\\1\\2)\n" text "${text}")
string(REGEX REPLACE "BUSBW_(COLLECTIVE[^\n]+fast_methods)" "BUSBW_FAST_\\1" text "${text}")
string(REGEX REPLACE "\\[([^\n]*)\\]" "{\\1}" text "${text}")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/common/values/collectives.inc
     CONTENT "${text}#undef BUSBW_COLLECTIVE\n#undef BUSBW_FAST_COLLECTIVE\n" @ONLY)
string(REGEX MATCHALL "\\([a-z_]+," busbw_collectives "${text}")
list(TRANSFORM busbw_collectives REPLACE "[(,]" "")
