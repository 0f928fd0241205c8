# Fake libraries that the tests of the engine load instead of real ones.

# Adds the library `name` from a source in tests/engine/fakes. ARGN: macros that select its behavior, which the
# source explains. The tests have the path of the library in the macro BUSBW_<NAME>.
function(busbw_add_fake name source)
  add_library(${name} MODULE ${PROJECT_SOURCE_DIR}/tests/engine/fakes/${source})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/engine)
  target_compile_definitions(${name} PRIVATE ${ARGN})
  add_dependencies(engine_tests ${name})
  string(TOUPPER BUSBW_${name} macro)
  target_compile_definitions(engine_tests PRIVATE ${macro}="$<TARGET_FILE:${name}>")
endfunction()

busbw_add_fake(fake_nvml nvml.cpp)
busbw_add_fake(fake_nvml_old_name nvml.cpp OLD_NAME)
busbw_add_fake(fake_nvml_bare nvml.cpp BARE)
busbw_add_fake(fake_nvml_dead nvml.cpp DEAD)
busbw_add_fake(fake_nccl nccl.cpp VERSION=22809)
busbw_add_fake(fake_nccl_2_18 nccl.cpp VERSION=21805 BARE)
busbw_add_fake(fake_nccl_2_17 nccl.cpp VERSION=21701)
busbw_add_fake(fake_nccl_2_8 nccl.cpp VERSION=2804)
busbw_add_fake(fake_nccl_own_count nccl.cpp VERSION=900 BARE)
busbw_add_fake(fake_nccl_broken nccl.cpp VERSION=22809 BROKEN)
busbw_add_fake(fake_nccl_mute nccl.cpp VERSION=0 MUTE)
busbw_add_fake(fake_pmix pmix.cpp)
busbw_add_fake(fake_profiled_nccl_2_28 profiled_nccl.cpp VERSION=22809)
busbw_add_fake(fake_profiled_nccl_2_31_1 profiled_nccl.cpp VERSION=23101)
busbw_add_fake(fake_profiled_nccl_2_31_2 profiled_nccl.cpp VERSION=23102)

# The tests load the profiler plugin as NCCL does.
add_dependencies(engine_tests busbw_profiler)
target_compile_definitions(engine_tests PRIVATE BUSBW_PROFILER="$<TARGET_FILE:busbw_profiler>")
