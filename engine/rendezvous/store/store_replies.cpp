#include "rendezvous/store/store_replies.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/support/number_list.hpp"

namespace busbw {

Bytes require_value(StoreReply reply) {
  if (reply.kind == StoreReply::Kind::done) return std::move(reply.value);
  const auto* reason = reinterpret_cast<const char*>(reply.value.data());
  throw EnvironmentError(fmt::format("the job's store refused a request: {}; install the same busbw everywhere",
                                     std::string_view(reason, reply.value.size())));
}

std::int64_t decode_sum(const Bytes& value) { return MessageReader(value).take<std::int64_t>(); }

Error wait_timeout_error(const StoreRequest& request, const Bytes& missing, double limit_s) {
  const std::string remedy = "check their processes and hosts, or raise the limit with -T";
  if (request.op != StoreRequest::Op::barrier)
    return Error(ExitCode::rank_lost, fmt::format("waited {:g} s for {}; {}", limit_s, request.key, remedy));
  std::vector<int> missing_members;
  MessageReader reader(missing);
  for (std::size_t i = 0; i < missing.size() / sizeof(std::int32_t); ++i)
    missing_members.push_back(reader.take<std::int32_t>());
  return Error(ExitCode::rank_lost, fmt::format("waited {:g} s at {} for {} {}; {}", limit_s, request.key,
                                                missing_members.size() == 1 ? "member" : "members",
                                                number_list_text(missing_members), remedy));
}

}  // namespace busbw
