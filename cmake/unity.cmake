# Compiles several sources of a target at once, which halves the time of a build, because the standard library's templates
# take most of it. Installation and `make test` use it. The build `dev` does not, because groups hide missing #include
# lines, and a change compiles all sources of a group.
# CMake forms groups of eight neighbors. If two of them define the same name in unnamed namespaces, rename one.
option(BUSBW_UNITY_BUILD "Compile the engine and its tests in groups of sources" OFF)

function(busbw_unite target)
  if(BUSBW_UNITY_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
    # GCC takes every source of a group for a header, where a type with a field of an unnamed namespace is an error.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
endfunction()
