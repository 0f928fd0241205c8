#pragma once
// Conversion of store replies to results and errors.
#include "rendezvous/store/store.hpp"
#include "rendezvous/store/store_state.hpp"

namespace busbw {

/// Returns the value of a reply. Throws EnvironmentError if the store refused the request.
Bytes value_of(StoreReply answer);
/// Returns the sum in the reply to `add`.
std::int64_t sum_of(const Bytes& value);
/// Error of a wait beyond the limit; `missing` is the reply to a `missing` request for the same key.
Error wait_timeout_error(const StoreRequest& request, const Bytes& missing, double limit_s);

}  // namespace busbw
