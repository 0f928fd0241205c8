#pragma once
// What decides which method runs: a table and what the environment says of each collective.
#include <array>
#include <cstddef>
#include <cstdint>

#include "fastpath/settings.hpp"
#include "fastpath/table.hpp"

namespace busbw::fastpath {
