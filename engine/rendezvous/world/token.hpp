#pragma once
// Token: the shared secret with which the processes of a job authenticate each other (channel/handshake.hpp).
#include <optional>
#include <string>

#include "common/os/environment.hpp"

namespace busbw {

/// Returns the token from BUSBW_TOKEN or from the file BUSBW_TOKEN_FILE, without surrounding blanks. Nothing if neither
/// is set. Throws UsageError if both are set, if the token is invalid, or if other users can access the file. Messages
/// never contain the token.
std::optional<std::string> find_token(Environment environment);

/// Returns a random token of 128 bits.
std::string random_token();

}  // namespace busbw
