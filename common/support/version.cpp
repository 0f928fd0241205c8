// The version that CMake defines.
#include "common/support/version.hpp"

namespace busbw {

std::string_view version() { return BUSBW_VERSION; }

}  // namespace busbw
