# Compiles several sources of a target at once. This halves the time of a build, because templates of the standard library
# take most of the time. Installation and `make test` use it. The build `dev` does not, because groups hide missing #include
# lines, and a change compiles all sources of a group.
# CMake forms groups of eight neighboring sources; builds for sanitizers have groups of 24, because with few processors
# larger groups take less time. If two sources of a group define the same name in unnamed namespaces,
# rename one. In a group, a type outside of unnamed namespaces must not have a member with a type from one: GCC 13.3 crashes.
option(BUSBW_UNITY_BUILD "Compile the engine and its tests in groups of sources" OFF)

function(busbw_unite target)
  if(BUSBW_UNITY_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  endif()
endfunction()
