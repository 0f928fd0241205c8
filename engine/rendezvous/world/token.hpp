#pragma once
// The secret by which the processes of one job know each other.
#include <optional>
#include <string>

#include "common/os/environment.hpp"

namespace busbw {

/// The token that BUSBW_TOKEN or the file named by BUSBW_TOKEN_FILE holds, without the blanks around it; none where
/// neither is set. Throws UsageError on a token that is empty, too long or has blanks, on a file that others may read,
/// and when both variables are set. The token itself is in no message.
std::optional<std::string> find_token(Environment environment);

/// A token that nobody can guess.
std::string random_token();

}  // namespace busbw
