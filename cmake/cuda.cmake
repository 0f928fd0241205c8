# Enables the GPU engine by BUSBW_CUDA: AUTO (if CUDA's compiler works), ON (an error if it does not), OFF. Sets
# `busbw_has_cuda`.
#
# With AUTO nothing of CUDA or NCCL may fail the build. CMake ends at a compiler that does not work. So a separate project
# first tries the compiler.
#
# The compiler is searched in CMAKE_CUDA_COMPILER, in the Python environment of the build, in /usr/local/cuda and in PATH.
# The wheels of such an environment are: pip install "cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.*" nvidia-nccl-cu13
# NCCL's header comes from the same environment or from the system. The NCCL library is loaded at run time.
set(BUSBW_CUDA AUTO CACHE STRING "Build the GPU engine: AUTO, ON or OFF")
set(BUSBW_PYTHON "" CACHE FILEPATH "Python of an environment with CUDA's and NCCL's wheels")

# Searches the compiler and the libraries. Sets `busbw_cuda_problem` to the reason if the GPU engine cannot be built.
macro(busbw_find_cuda)
  set(busbw_cuda_problem "")
  set(site "") # folder of NVIDIA's wheels in the Python environment. Empty: the environment has none
  find_program(busbw_python NAMES ${BUSBW_PYTHON} python python3 HINTS $ENV{VIRTUAL_ENV}/bin)
  if(busbw_python)
    execute_process(COMMAND ${busbw_python} -c "import importlib.util as u, os; s = u.find_spec('nvidia'); \
print(next((p for p in s.submodule_search_locations if os.path.isdir(p)), '') if s else '', end='')"
                    OUTPUT_VARIABLE site ERROR_QUIET)
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    find_program(busbw_nvcc nvcc HINTS ${site}/cu13/bin ${site}/cu12/bin /usr/local/cuda/bin)
    if(busbw_nvcc)
      set(CMAKE_CUDA_COMPILER ${busbw_nvcc})
    endif()
  endif()
  # The kernels of -D need the device API of NCCL 2.28.9; that of 2.28.3 lacks members. The library loaded at run time may be
  # older.
  find_path(busbw_nccl_include nccl_device.h HINTS ${site}/nccl/include /usr/local/cuda/include)
  if(NOT CMAKE_CUDA_COMPILER)
    set(busbw_cuda_problem "CUDA's compiler (nvcc) not found")
  elseif(NOT busbw_nccl_include)
    set(busbw_cuda_problem "nccl_device.h of NCCL 2.28.9 or later not found")
  else()
    busbw_choose_architectures()
    get_filename_component(busbw_toolkit ${CMAKE_CUDA_COMPILER} DIRECTORY)
    get_filename_component(busbw_toolkit ${busbw_toolkit} DIRECTORY)
    find_library(busbw_cudart cudart_static HINTS ${busbw_toolkit}/lib ${busbw_toolkit}/lib64)
    # The wheels have lib, but nvcc's profile says lib64.
    set(CMAKE_CUDA_FLAGS_INIT "-L${busbw_toolkit}/lib -L${busbw_toolkit}/lib64")
    set(CMAKE_CUDA_STANDARD 17)
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(busbw_cuda_problem "${CMAKE_CUDA_COMPILER} --list-gpu-arch names no known GPU")
    elseif(NOT busbw_cudart)
      set(busbw_cuda_problem "libcudart_static.a not found in ${busbw_toolkit}")
    else()
      busbw_try_cuda()
    endif()
  endif()
endmacro()

# Sets CMAKE_CUDA_ARCHITECTURES to all architectures that the compiler supports, unless it is set. CUDA 13 begins at sm_75,
# and compilers before 12.8 end at sm_90. Newer GPUs use the intermediate code of the newest architecture. The variable
# stays empty if the compiler does not answer.
macro(busbw_choose_architectures)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
    foreach(architecture 70 75 80 86 89 90 100 120)
      if(known MATCHES "compute_${architecture}\n")
        list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
      endif()
    endforeach()
    if(CMAKE_CUDA_ARCHITECTURES)
      list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "-real$" "" AT -1) # adds intermediate code for the newest one
    endif()
  endif()
endmacro()

# Compiles a file with NCCL's header in a separate project, for the newest architecture. Sets `busbw_cuda_problem` if this
# fails. After a success with these settings, further calls do nothing.
macro(busbw_try_cuda)
  set(trial ${PROJECT_BINARY_DIR}/cuda-trial)
  set(settings "")
  foreach(setting CMAKE_MAKE_PROGRAM CMAKE_TOOLCHAIN_FILE CMAKE_CUDA_HOST_COMPILER CMAKE_CUDA_STANDARD)
    if(${setting})
      list(APPEND settings "-D${setting}=${${setting}}")
    endif()
  endforeach()
  set(source "#include <nccl.h>\n#include <nccl_device.h>\n__global__ void trial() {}\n\
int trial(const ncclDevCommRequirements& requirements) { return requirements.barrierCount; }\n")
  string(MD5 source_hash "${source}")
  set(tried ${source_hash} ${CMAKE_CUDA_COMPILER} ${busbw_nccl_include} ${CMAKE_CUDA_ARCHITECTURES} ${settings}
      ${CMAKE_CUDA_FLAGS} $ENV{CUDAHOSTCXX} ${CMAKE_GENERATOR})
  if(NOT "${tried}" STREQUAL "${busbw_working_cuda}")
    list(GET CMAKE_CUDA_ARCHITECTURES -1 newest)
    file(REMOVE_RECURSE ${trial})
    file(WRITE ${trial}/trial.cu "${source}")
    file(WRITE ${trial}/CMakeLists.txt "cmake_minimum_required(VERSION 3.22)\nproject(trial LANGUAGES CUDA)\n\
add_library(trial OBJECT trial.cu)\ntarget_include_directories(trial SYSTEM PRIVATE \"${busbw_nccl_include}\")\n")
    execute_process(
      COMMAND ${CMAKE_COMMAND} -S ${trial} -B ${trial}/build -G ${CMAKE_GENERATOR} -DCMAKE_BUILD_TYPE=Debug
              -DCMAKE_CUDA_COMPILER=${CMAKE_CUDA_COMPILER} -DCMAKE_CUDA_ARCHITECTURES=${newest}
              "-DCMAKE_CUDA_FLAGS=${CMAKE_CUDA_FLAGS_INIT} ${CMAKE_CUDA_FLAGS}" ${settings}
      RESULT_VARIABLE failure OUTPUT_FILE ${trial}/log ERROR_FILE ${trial}/log)
    if(NOT failure)
      execute_process(COMMAND ${CMAKE_COMMAND} --build ${trial}/build RESULT_VARIABLE failure
                      OUTPUT_FILE ${trial}/log ERROR_FILE ${trial}/log)
    endif()
    if(failure)
      set(busbw_cuda_problem "${CMAKE_CUDA_COMPILER} cannot compile a file with nccl_device.h of NCCL 2.28.9, see ${trial}/log")
    else()
      set(busbw_working_cuda ${tried} CACHE INTERNAL "Compiler, NCCL header and architectures of a successful trial")
    endif()
  endif()
endmacro()

set(busbw_has_cuda FALSE)
if(NOT BUSBW_CUDA STREQUAL OFF)
  busbw_find_cuda()
  if(NOT busbw_cuda_problem)
    set(busbw_has_cuda TRUE)
    enable_language(CUDA)
    message(STATUS "the GPU engine is built with ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}")
  elseif(BUSBW_CUDA STREQUAL ON)
    message(FATAL_ERROR "BUSBW_CUDA=ON: ${busbw_cuda_problem}; see cmake/cuda.cmake")
  else()
    message(STATUS "the GPU engine is not built: ${busbw_cuda_problem}")
  endif()
endif()

# Sets up a target that calls CUDA or NCCL, or has kernels.
function(busbw_use_cuda target)
  target_include_directories(${target} SYSTEM PRIVATE ${busbw_toolkit}/include ${busbw_nccl_include})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  # The code for all GPUs is most of a program, so it is compressed. Every driver for CUDA 13 can read compressed code.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
  endif()
  target_link_libraries(${target} PRIVATE ${busbw_cudart} rt)
endfunction()
