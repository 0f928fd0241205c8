# Writes two files of C++ from src/busbw/collectives.toml, each with a line for each collective, and sets
# `busbw_collectives` to the names. Patterns suffice to read the file, because each field has a line of its own.
#
#   common/values/collectives.inc               BUSBW_COLLECTIVE(name, .field = value, ...)
#                                               BUSBW_FAST_COLLECTIVE(...) for a collective with fast methods
#   common/values/collective_descriptions.inc   {"name", "description"},
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
# Remove comments, and the fields that only Python reads.
set(python_fields "(description|spelling|runs_as_ring|checked_in_place|always_named) = [^\n]*")
string(REGEX REPLACE "#[^\n]*|${python_fields}" "" text "${text}")
# Join each entry to one line: [[collective]], .name = "all_reduce", .field = value
string(REGEX REPLACE "\n+([a-z_]+) = ([^\n]+)" ", .\\1 = \\2" text "${text}")
# Make a macro call of each line: BUSBW_COLLECTIVE(all_reduce, .field = value)
string(REGEX REPLACE "\n+\\[\\[collective\\]\\], .name = \"([a-z_]+)\"([^\n]+)" "BUSBW_COLLECTIVE(\\1\\2)\n" text "${text}")
string(REGEX REPLACE "BUSBW_(COLLECTIVE[^\n]+fast_methods)" "BUSBW_FAST_\\1" text "${text}")
# Lists have braces in C++.
string(REGEX REPLACE "\\[([^\n]*)\\]" "{\\1}" text "${text}")
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/common/values/collectives.inc
     CONTENT "${text}#undef BUSBW_COLLECTIVE\n#undef BUSBW_FAST_COLLECTIVE\n" @ONLY)
string(REGEX MATCHALL "\\([a-z_]+," busbw_collectives "${text}")
list(TRANSFORM busbw_collectives REPLACE "[(,]" "")
