#pragma once
// Checks of the options that need to know the backend, which is selected after the command line is read.
#include <string>

#include "options/options.hpp"
#include "values/backend_traits.hpp"

namespace busbw {

/// Reason why a backend with these traits cannot run the command line, with the remedy. Empty if it can.
std::string backend_error(const Options& options, const BackendTraits& traits);

}  // namespace busbw
