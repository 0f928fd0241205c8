#pragma once
// Converts replies of a store to results and errors, for the implementations of Store.
#include "rendezvous/store/store.hpp"
#include "rendezvous/store/store_state.hpp"

namespace busbw {

/// Returns the value in a reply. Throws EnvironmentError if the store refused the request.
Bytes require_value(StoreReply reply);
/// Returns the sum in the reply to `add`.
std::int64_t decode_sum(const Bytes& value);
/// Error for a wait longer than `limit_s`. `missing` is the value in the reply to an Op::missing request for the same
/// key.
Error wait_timeout_error(const StoreRequest& request, const Bytes& missing, double limit_s);

}  // namespace busbw
