#pragma once
// What a store's answers mean to the member that asked.
#include "rendezvous/store/store.hpp"
#include "rendezvous/store/store_state.hpp"

namespace busbw {

/// The answer's value. Throws EnvironmentError where the store refused.
Bytes value_of(StoreReply answer);
/// The answer to `add`.
std::int64_t sum_of(const Bytes& value);
/// The error of a wait that took too long; `missing` is the answer to the question who has not come.
Error wait_timeout_error(const StoreRequest& asked, const Bytes& missing, double limit_s);

}  // namespace busbw
