#pragma once
// Typed wrapper of dlsym, for libraries that are opened at run time.
#include <dlfcn.h>

namespace busbw {

/// Sets `function` to the library's symbol `name`, or to null if the library does not have it.
template <class Function>
void load_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace busbw
