#include "windows.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>

namespace stress {
namespace {

template <class Function>
void find(const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (function != nullptr) return;
  std::printf("this NCCL has no %s\n", name);
  std::fflush(stdout);
  _exit(3);
}

}  // namespace

Windows find_windows() {
  Windows windows;
  find("ncclMemAlloc", windows.allocate);
  find("ncclCommWindowRegister", windows.make);
  find("ncclCommWindowDeregister", windows.end);
  return windows;
}

}  // namespace stress
