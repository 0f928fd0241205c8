#include "rendezvous/store/store_state.hpp"

#include <doctest/doctest.h>

#include <deque>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "support_wire.hpp"

using namespace busbw;
using namespace busbw::test;
using Op = StoreRequest::Op;

namespace {

using RequestId = std::pair<std::uint64_t, std::uint32_t>;  // client, number

StoreRequest request(Op op, const std::string& key, std::uint32_t number = 0) { return {op, number, key, {}, 0, 0}; }
StoreRequest set(const std::string& key, std::string_view value, std::int64_t reads = 0, std::uint32_t number = 0) {
  return {Op::set, number, key, bytes_of(value), reads, 0};
}
StoreRequest arrive(const std::string& key, std::int32_t member, std::int64_t members, std::uint32_t number = 0) {
  return {Op::barrier, number, key, {}, members, member};
}

std::set<RequestId> clients_of(const std::vector<StoreReply>& answers) {
  std::set<RequestId> all;
  for (const StoreReply& answer : answers)
    if (answer.kind == StoreReply::Kind::done) all.insert({answer.client, answer.number});
  return all;
}

std::string refusal_of(std::vector<StoreReply> answers) {
  REQUIRE(answers.size() == 1);
  REQUIRE(answers[0].kind == StoreReply::Kind::refused);
  return text_of(answers[0].value);
}

}  // namespace

TEST_CASE("StoreRequest: packing and unpacking; rejects invalid bytes") {
  const StoreRequest original{Op::barrier, 7, "key", bytes_of("value"), -5, 3};
  const Bytes packed = MessageWriter().add(original).bytes();
  const auto back = MessageReader(packed).take<StoreRequest>();
  CHECK(back.op == original.op);
  CHECK(back.number == 7);
  CHECK(back.key == "key");
  CHECK(back.value == original.value);
  CHECK(back.amount == -5);
  CHECK(back.member == 3);
  for (std::size_t length = 0; length < packed.size(); ++length)
    CHECK_THROWS_AS(MessageReader(std::span(packed).first(length)).take<StoreRequest>(), BrokenMessage);
}

TEST_CASE("StoreState: a set answers the waiting gets in order, while reads are left") {
  StoreState state;
  CHECK(state.handle_request(1, request(Op::get, "k", 10)).empty());
  CHECK(state.handle_request(2, request(Op::get, "k", 20)).empty());
  CHECK(state.handle_request(3, request(Op::get, "k", 30)).empty());
  CHECK(clients_of(state.handle_request(4, set("k", "x", 2, 40))) == std::set<RequestId>{{4, 40}, {1, 10}, {2, 20}});
  CHECK(state.bytes() > 0);  // the third get still waits
  CHECK(clients_of(state.handle_request(4, set("k", "y", 1, 41))) == std::set<RequestId>{{4, 41}, {3, 30}});
  CHECK(state.bytes() == 0);
}

TEST_CASE("StoreState: a barrier cannot have more members than the job") {
  StoreState state(4);
  StoreRequest barrier = request(Op::barrier, "b", 1);
  barrier.amount = 5;
  const auto answers = state.handle_request(1, barrier);
  REQUIRE(answers.size() == 1);
  CHECK(answers[0].kind == StoreReply::Kind::refused);
  CHECK(state.bytes() == 0);
  barrier.amount = 4;
  CHECK(state.handle_request(1, barrier).empty());
  CHECK(state.bytes() > 0);
}

TEST_CASE("StoreState: a disconnected client gets no reply and uses no reads") {
  StoreState state;
  state.handle_request(1, request(Op::get, "k", 1));
  state.handle_request(1, arrive("b", 0, 2, 2));
  state.drop_client(1);
  CHECK(clients_of(state.handle_request(2, set("k", "x", 1, 1))) == std::set<RequestId>{{2, 1}});
  CHECK(clients_of(state.handle_request(2, request(Op::get, "k", 2))) == std::set<RequestId>{{2, 2}});
  // It arrived at the barrier before it disconnected.
  CHECK(clients_of(state.handle_request(2, arrive("b", 1, 2, 3))) == std::set<RequestId>{{2, 3}});
}

TEST_CASE("StoreState: the memory of all values is bounded") {
  StoreState state;
  const std::string big(StoreState::kMaxValueBytes, 'x');
  int kept = 0;
  while (state.handle_request(0, set("k" + std::to_string(kept), big))[0].kind == StoreReply::Kind::done) ++kept;
  CHECK(kept <= static_cast<int>(StoreState::kMaxBytes / big.size()));
  CHECK(kept >= static_cast<int>(StoreState::kMaxBytes / big.size()) - 1);
  CHECK(state.bytes() <= StoreState::kMaxBytes);
  CHECK(refusal_of(state.handle_request(0, set("more", big))).find("full") != std::string::npos);
}

TEST_CASE("StoreState: keys without values count towards the memory bound") {
  StoreState state;
  state.handle_request(0, set("k", ""));
  const std::size_t of_one = state.bytes();
  CHECK(of_one > 0);
  state.handle_request(0, set("l", "", 1));
  CHECK(state.bytes() == 2 * of_one);
  state.handle_request(0, request(Op::get, "l"));
  CHECK(state.bytes() == of_one);
}

TEST_CASE("StoreState: refuses invalid requests with a reason") {
  StoreState state;
  CHECK(refusal_of(state.handle_request(0, arrive("b", 0, 0))).find("b: invalid member 0 of 0") != std::string::npos);
  CHECK(refusal_of(state.handle_request(0, arrive("b", 0, std::int64_t{1} << 40))).find("member") != std::string::npos);
  CHECK(refusal_of(state.handle_request(0, arrive("b", 5, 5))).find("member 5 of 5") != std::string::npos);
  CHECK(refusal_of(state.handle_request(0, set("k", "x", -1))).find("reads") != std::string::npos);
  state.handle_request(0, arrive("b", 0, 3));
  CHECK(refusal_of(state.handle_request(0, arrive("b", 1, 4))).find("counts differ") != std::string::npos);
  CHECK(refusal_of(state.handle_request(0, arrive("b", 0, 3))).find("twice") != std::string::npos);
}

TEST_CASE("StoreState: lists the missing members of a barrier") {
  StoreState state;
  state.handle_request(0, arrive("b", 1, 4));
  state.handle_request(0, arrive("b", 3, 4));
  auto answers = state.handle_request(9, request(Op::missing, "b", 5));
  REQUIRE(answers.size() == 1);
  MessageReader reader(answers[0].value);
  CHECK(answers[0].value.size() == 8);
  CHECK(reader.take<std::int32_t>() == 0);
  CHECK(reader.take<std::int32_t>() == 2);
  CHECK(state.handle_request(9, request(Op::missing, "unknown"))[0].value.empty());
}

namespace {

/// A simple reference model of a store, with linear searches.
class Model {
 public:
  std::set<RequestId> take(std::uint64_t client, const StoreRequest& request) {
    const RequestId id{client, request.number};
    std::set<RequestId> answered;
    switch (request.op) {
      case Op::set: {
        if (find(request.key) != values_.end()) return {};
        values_.push_back({request.key, request.value, request.amount});
        answered.insert(id);
        for (auto it = waiting_.begin(); it != waiting_.end();) {
          if (it->first != request.key || find(request.key) == values_.end()) {
            ++it;
            continue;
          }
          answered.insert(it->second);
          read(request.key);
          it = waiting_.erase(it);
        }
        return answered;
      }
      case Op::get:
        if (find(request.key) == values_.end()) {
          waiting_.push_back({request.key, id});
          return {};
        }
        read(request.key);
        return {id};
      case Op::barrier: {
        auto& arrive = barriers_[request.key];
        for (const auto& [member, other] : arrive)
          if (member == request.member) return {};
        arrive.push_back({request.member, id});
        if (static_cast<std::int64_t>(arrive.size()) < request.amount) return {};
        for (const auto& [member, other] : arrive)
          if (!disconnected_.contains(other)) answered.insert(other);
        barriers_.erase(request.key);
        return answered;
      }
      case Op::missing: return {id};
    }
    return {};
  }
  void drop_client(std::uint64_t client) {
    std::erase_if(waiting_, [&](const auto& entry) { return entry.second.first == client; });
    for (auto& [key, arrive] : barriers_)
      for (auto& [member, id] : arrive)
        if (id.first == client) disconnected_.insert(id);
  }

 private:
  struct Value {
    std::string key;
    Bytes value;
    std::int64_t reads;
  };
  std::deque<Value>::iterator find(const std::string& key) {
    auto it = values_.begin();
    while (it != values_.end() && it->key != key) ++it;
    return it;
  }
  void read(const std::string& key) {
    const auto it = find(key);
    if (it->reads > 0 && --it->reads == 0) values_.erase(it);
  }
  std::deque<Value> values_;
  std::deque<std::pair<std::string, RequestId>> waiting_;
  std::map<std::string, std::vector<std::pair<int, RequestId>>> barriers_;
  std::set<RequestId> disconnected_;
};

}  // namespace

TEST_CASE("StoreState: behaves like the reference model for thousands of random requests") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto below = [&](unsigned bound) { return static_cast<int>(random() % bound); };
    StoreState state;
    Model model;
    for (std::uint32_t number = 0; number < 3000; ++number) {
      const auto client = static_cast<std::uint64_t>(below(6));
      if (below(50) == 0) {
        state.drop_client(client);
        model.drop_client(client);
        continue;
      }
      StoreRequest asked = request(static_cast<Op>(below(4)), "k" + std::to_string(below(8)), number);
      if (asked.op == Op::set) {
        asked.amount = below(3);
        asked.value = bytes_of(std::string(static_cast<std::size_t>(below(4)), 'v'));
      }
      if (asked.op == Op::barrier) {
        asked.amount = 3;
        asked.member = below(3);
      }
      const auto answers = state.handle_request(client, asked);
      REQUIRE(clients_of(answers) == model.take(client, asked));
    }
  }
}

TEST_CASE("StoreState: a lost member gives empty values to those that wait for it, now and later") {
  StoreState state(4);
  const auto get_from = [](const std::string& key, std::int32_t member, std::uint32_t number) {
    return StoreRequest{Op::get, number, key, {}, 0, member};
  };
  state.handle_request(1, set("early", "value"));
  CHECK(state.handle_request(7, get_from("late", 2, 1)).empty());
  CHECK(state.handle_request(7, get_from("other", 1, 2)).empty());
  const std::size_t bytes = state.bytes();
  const auto replies = state.lose_members(2, 2);
  CHECK(clients_of(replies) == std::set<RequestId>{{7, 1}});
  CHECK(replies[0].value.empty());
  CHECK(state.bytes() < bytes);
  CHECK(clients_of(state.handle_request(7, get_from("later", 3, 3))) == std::set<RequestId>{{7, 3}});
  CHECK(text_of(state.handle_request(7, get_from("early", 3, 4))[0].value) == "value");
  CHECK(clients_of(state.handle_request(1, set("other", "value"))) == std::set<RequestId>{{1, 0}, {7, 2}});
}

TEST_CASE("StoreState: barriers of all members do not wait for lost ones") {
  StoreState state(3);
  state.handle_request(0, arrive("all", 0, 3));
  state.handle_request(2, arrive("all", 2, 3, 5));
  state.handle_request(0, arrive("some", 0, 2, 9));  // its members are others
  CHECK(clients_of(state.lose_members(1, 1)) == std::set<RequestId>{{0, 0}, {2, 5}});
  CHECK(state.handle_request(0, arrive("next", 0, 3)).empty());
  CHECK(state.lose_members(1, 1).empty());
  CHECK(clients_of(state.handle_request(2, arrive("next", 2, 3))) == std::set<RequestId>{{0, 0}, {2, 0}});
  CHECK(clients_of(state.handle_request(1, arrive("some", 1, 2))) == std::set<RequestId>{{0, 9}, {1, 0}});
  CHECK(state.bytes() == 0);
}
