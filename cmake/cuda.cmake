# Enables the GPU engine by BUSBW_CUDA: AUTO (if CUDA's compiler is found), ON (an error if it is not found), OFF.
#
# The compiler is searched in CMAKE_CUDA_COMPILER, PATH, /usr/local/cuda, and the Python environment of the build (pip
# install "cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.*" nvidia-nccl-cu13). NCCL's header comes from the same
# environment or from the system. The NCCL library is loaded at run time.
set(BUSBW_CUDA AUTO CACHE STRING "Build the GPU engine: AUTO, ON or OFF")
set(BUSBW_PYTHON "" CACHE FILEPATH "Python of an environment with CUDA's and NCCL's wheels")

set(busbw_has_cuda FALSE)
if(NOT BUSBW_CUDA STREQUAL OFF)
  set(site "")
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
  # The kernels of -D need the device API of NCCL 2.28. The library loaded at run time may be older.
  find_path(busbw_nccl_include nccl_device.h HINTS ${site}/nccl/include /usr/local/cuda/include)
  if(CMAKE_CUDA_COMPILER AND busbw_nccl_include)
    set(busbw_has_cuda TRUE)
  elseif(BUSBW_CUDA STREQUAL ON)
    message(FATAL_ERROR "BUSBW_CUDA=ON: CUDA's compiler (${CMAKE_CUDA_COMPILER}) or nccl_device.h (${busbw_nccl_include}) "
                        "not found; see cmake/cuda.cmake")
  endif()
endif()

if(busbw_has_cuda)
  # All architectures that the compiler supports: CUDA 13 begins at sm_75, compilers before 12.8 end at sm_90. Newer
  # GPUs use the intermediate code of the newest one.
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known COMMAND_ERROR_IS_FATAL ANY)
    foreach(architecture 70 75 80 86 89 90 100 120)
      if(known MATCHES "compute_${architecture}\n")
        list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
      endif()
    endforeach()
    list(TRANSFORM CMAKE_CUDA_ARCHITECTURES REPLACE "-real$" "" AT -1)
  endif()
  get_filename_component(busbw_toolkit ${CMAKE_CUDA_COMPILER} DIRECTORY)
  get_filename_component(busbw_toolkit ${busbw_toolkit} DIRECTORY)
  # The wheels have lib, but nvcc's profile says lib64.
  set(CMAKE_CUDA_FLAGS_INIT "-L${busbw_toolkit}/lib -L${busbw_toolkit}/lib64")
  set(CMAKE_CUDA_STANDARD 17)
  enable_language(CUDA)
  find_library(busbw_cudart cudart_static HINTS ${busbw_toolkit}/lib ${busbw_toolkit}/lib64 REQUIRED)
  message(STATUS "the GPU engine is built with ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION}")
endif()

# Sets up a target that calls CUDA or NCCL, or has kernels.
function(busbw_use_cuda target)
  target_include_directories(${target} SYSTEM PRIVATE ${busbw_toolkit}/include ${busbw_nccl_include})
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)
  # Compressed, because the code for all GPUs would be most of a program. Every driver for CUDA 13 can read it.
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
  endif()
  target_link_libraries(${target} PRIVATE ${busbw_cudart} rt)
endfunction()
