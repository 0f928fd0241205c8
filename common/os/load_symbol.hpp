#pragma once
#include <dlfcn.h>

namespace busbw {

/// Points `function` at the library's function of that name; null where it has none.
template <class Function>
void load_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
}

}  // namespace busbw
