# Tests that need no GPU, and the libraries and programs that they use.
file(GLOB_RECURSE test_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/fastpath/*.cpp)
list(FILTER test_sources EXCLUDE REGEX "/tests/fastpath/fakes/")
add_executable(fastpath_tests ${test_sources})
target_include_directories(fastpath_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests/fastpath)
target_link_libraries(fastpath_tests PRIVATE fastpath_host busbw_doctest)
busbw_precompile_tests(fastpath_tests ${PROJECT_SOURCE_DIR}/tests/fastpath/main.cpp)
set_target_properties(fastpath_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
target_compile_definitions(fastpath_tests PRIVATE BUSBW_TEST_DIR="${PROJECT_SOURCE_DIR}/tests")
add_test(NAME fastpath_tests COMMAND fastpath_tests)

# Defines a macro with the path of a target's file for the tests.
function(fastpath_show_tests macro target)
  add_dependencies(fastpath_tests ${target})
  target_compile_definitions(fastpath_tests PRIVATE ${macro}="$<TARGET_FILE:${target}>")
endfunction()

# The library built without CUDA: it forwards every call to NCCL.
fastpath_add_library(busbw_nccl_forward "")
fastpath_show_tests(FORWARD busbw_nccl_forward)

# Adds a fake NCCL library in a separate folder, where a program that is linked with it finds it.
set(fakes ${PROJECT_SOURCE_DIR}/tests/fastpath/fakes)
function(fastpath_add_fake_nccl name)
  add_library(${name} SHARED ${fakes}/nccl.cpp)
  target_compile_definitions(${name} PRIVATE ${ARGN})
  set_target_properties(${name} PROPERTIES OUTPUT_NAME nccl SOVERSION 2 LIBRARY_OUTPUT_DIRECTORY
                                                                        ${CMAKE_CURRENT_BINARY_DIR}/${name})
endfunction()
fastpath_add_fake_nccl(fake_nccl_new VERSION=22809)
fastpath_add_fake_nccl(fake_nccl_old VERSION=21805 OLD)
fastpath_show_tests(NEW_NCCL fake_nccl_new)
fastpath_show_tests(OLD_NCCL fake_nccl_old)

# Adds a fake NVML library, in several variants.
function(fastpath_add_fake_nvml name macro)
  add_library(${name} MODULE ${fakes}/nvml.cpp)
  target_compile_definitions(${name} PRIVATE ${ARGN})
  fastpath_show_tests(${macro} ${name})
endfunction()
fastpath_add_fake_nvml(fastpath_nvml NVML)
fastpath_add_fake_nvml(fastpath_nvml_dead DEAD_NVML DEAD)
fastpath_add_fake_nvml(fastpath_nvml_old OLD_NVML OLD)

# A fake NCCL that exports every function. Only one of them returns a real result.
set(every_exports ${CMAKE_CURRENT_BINARY_DIR}/every_exports.inc)
fastpath_write_exports(${every_exports} ${fakes}/not_numbered.txt)
add_library(fake_nccl_every SHARED ${fakes}/every.cpp)
set_property(SOURCE ${fakes}/every.cpp APPEND PROPERTY OBJECT_DEPENDS ${every_exports})
fastpath_show_tests(EVERY_NCCL fake_nccl_every)

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
fastpath_show_tests(CALLER caller)
fastpath_show_tests(LINKED_CALLER linked_caller)
