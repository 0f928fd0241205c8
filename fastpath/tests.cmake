# Tests that need no GPU, and the libraries and programs that they use.
file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fastpath/*.cpp)
list(FILTER test_sources EXCLUDE REGEX "/tests/fastpath/fakes/")
option(BUSBW_SCHEDULE_TESTS "Build the tests of the fast path's schedules, whose models run on one thread for minutes" ON)
if(NOT BUSBW_SCHEDULE_TESTS)
  list(FILTER test_sources EXCLUDE REGEX "/tests/fastpath/(model|schedule)/")
endif()
add_executable(fastpath_tests ${test_sources})
target_include_directories(fastpath_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests/fastpath)
target_link_libraries(fastpath_tests PRIVATE fastpath_host busbw_doctest)
set_target_properties(fastpath_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
target_compile_definitions(fastpath_tests PRIVATE BUSBW_TEST_DIR="${PROJECT_SOURCE_DIR}/tests")
# doctest's implementation must be the first thing that its source includes, so this source is in no group.
set_source_files_properties(${PROJECT_SOURCE_DIR}/tests/fastpath/main.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
busbw_unite(fastpath_tests)
add_test(NAME fastpath_tests COMMAND fastpath_tests)

# Defines a macro with the path of a target's file for the tests, and builds the target before the tests.
function(fastpath_define_path_for_tests macro target)
  add_dependencies(fastpath_tests ${target})
  target_compile_definitions(fastpath_tests PRIVATE ${macro}="$<TARGET_FILE:${target}>")
endfunction()

# The library without functions of its own: it forwards every call to NCCL, so it needs no CUDA.
fastpath_add_library(busbw_nccl_forward)
fastpath_define_path_for_tests(FORWARD busbw_nccl_forward)

# Adds a fake libnccl.so.2 in a separate folder, so that several fake versions can exist. `ARGN`: compile definitions.
set(fakes ${PROJECT_SOURCE_DIR}/tests/fastpath/fakes)
function(fastpath_add_fake_nccl name)
  add_library(${name} SHARED ${fakes}/nccl.cpp)
  target_compile_definitions(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES OUTPUT_NAME nccl SOVERSION 2 LIBRARY_OUTPUT_DIRECTORY
                                                                        ${CMAKE_CURRENT_BINARY_DIR}/${name})
endfunction()
fastpath_add_fake_nccl(fake_nccl_new VERSION=22809)
fastpath_add_fake_nccl(fake_nccl_old VERSION=21805 OLD)
fastpath_define_path_for_tests(NEW_NCCL fake_nccl_new)
fastpath_define_path_for_tests(OLD_NCCL fake_nccl_old)

# A fake NCCL that exports every function of NCCL, and a program that calls them.
set(every_exports ${CMAKE_CURRENT_BINARY_DIR}/every_exports.inc)
fastpath_write_exports(${every_exports} ${fakes}/every.cpp)
add_library(fake_nccl_every SHARED ${fakes}/every.cpp)
set_property(SOURCE ${fakes}/every.cpp APPEND PROPERTY OBJECT_DEPENDS ${every_exports})
fastpath_define_path_for_tests(EVERY_NCCL fake_nccl_every)

add_executable(caller ${fakes}/caller.cpp)
add_executable(linked_caller ${fakes}/caller.cpp)
target_compile_definitions(linked_caller PRIVATE LINKED)
set_property(SOURCE ${fakes}/caller.cpp APPEND PROPERTY OBJECT_DEPENDS ${every_exports})
foreach(program caller linked_caller fake_nccl_every)
  target_compile_definitions(${program} PRIVATE FASTPATH_EXPORTS="${every_exports}")
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fastpath)
  target_link_libraries(${program} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
endforeach()
target_link_libraries(linked_caller PRIVATE fake_nccl_new)
fastpath_define_path_for_tests(CALLER caller)
fastpath_define_path_for_tests(LINKED_CALLER linked_caller)
