#include "backends/nccl/launch_group.hpp"

#include <doctest/doctest.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support_ranks.hpp"

using namespace busbw;

namespace {

using Kind = IssueRequest::Kind;

/// Log of the requests that the issuers of a group ran, with the threads that ran them.
struct IssueLog {
  std::mutex mutex;
  std::string text;
  std::vector<std::thread::id> threads;

  void add(const std::string& entry) {
    const std::scoped_lock lock(mutex);
    text += entry + " ";
    if (threads.empty() || threads.back() != std::this_thread::get_id()) threads.push_back(std::this_thread::get_id());
  }
};

class LoggingIssuer final : public OperationIssuer {
 public:
  LoggingIssuer(IssueLog& log, int number) : log_(log), number_(number) {}

  void run(const IssueRequest& request) override {
    if (request.count == fails_at) throw EnvironmentError("the device is lost");
    sum += request.count;
    for (const Transfer& send : request.sends) sum += send.count;
    if (keeps_log) log_.add(std::to_string(number_) + name(request.kind) + std::to_string(request.count));
  }
  void begin_nccl_group() override { note("("); }
  void end_nccl_group() override {
    note(")");
    if (fails_to_start) throw EnvironmentError("the device is lost");
  }
  void abort_nccl_group() noexcept override { note("!)"); }
  bool has_finished() override { return ++polls > polls_until_finished; }
  void recover() noexcept override { ++recovered; }

  bool keeps_log = true;
  bool fails_to_start = false;
  std::size_t fails_at = static_cast<std::size_t>(-1);
  int polls_until_finished = 0;
  int polls = 0;
  int recovered = 0;
  std::size_t sum = 0;

 private:
  void note(const char* text) {
    if (keeps_log) log_.add(text);
  }
  IssueLog& log_;
  int number_;
};

void submit(LaunchGroup::Member& member, Kind kind, std::size_t count = 0) {
  IssueRequest& request = member.next_request();
  request.kind = kind;
  request.count = count;
  request.sends.clear();
  member.submit();
}

struct Ranks {
  explicit Ranks(int size) : group(size) {
    for (int i = 0; i < size; ++i) issuers.push_back(std::make_unique<LoggingIssuer>(log, i));
  }
  /// Runs `body` as every member. Returns the complaints of all; each complaint aborts the job for the others.
  std::string run(const std::function<void(LaunchGroup::Member&, Team&)>& body) {
    return run_threads(group.size(), [&](Team& team) -> std::string {
      std::string complaint;
      LaunchGroup::Member member(group, team.rank(), *issuers[static_cast<std::size_t>(team.rank())], team);
      team.barrier();
      try {
        body(member, team);
      } catch (const JobAborted&) {
        complaint = "aborted; ";
      } catch (const std::exception& error) {
        complaint = std::string(error.what()) + "; ";
      }
      // As in a real run, abort the job before the member is destroyed.
      if (!complaint.empty()) static_cast<ThreadTeam&>(team).abort();
      return complaint;
    });
  }

  IssueLog log;
  std::vector<std::unique_ptr<LoggingIssuer>> issuers;
  LaunchGroup group;
};

}  // namespace

TEST_CASE("LaunchGroup: the first member issues all operations in order, each collective as one NCCL group") {
  Ranks ranks(3);
  const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team&) {
    submit(member, Kind::record_timestamp, 0);
    submit(member, Kind::all_reduce, 5);
    submit(member, Kind::copy, 7);
    submit(member, Kind::begin_nccl_group);
    submit(member, Kind::exchange, 8);
    submit(member, Kind::end_nccl_group);
    submit(member, Kind::synchronize);
    member.flush();
  });
  CHECK(complaints.empty());
  CHECK(ranks.log.text ==
        "0record_timestamp0 1record_timestamp0 2record_timestamp0 ( 0all_reduce5 1all_reduce5 2all_reduce5 ) "
        "0copy7 1copy7 2copy7 ( ( 0exchange8 1exchange8 2exchange8 ) ) ");
  CHECK(ranks.log.threads.size() == 1);
}

TEST_CASE("LaunchGroup: a single member needs no NCCL group") {
  Ranks ranks(1);
  CHECK(ranks.run([](LaunchGroup::Member& member, Team&) {
    submit(member, Kind::all_reduce, 1);
    submit(member, Kind::begin_nccl_group);
    submit(member, Kind::broadcast, 2);
    submit(member, Kind::end_nccl_group);
    submit(member, Kind::synchronize);
    member.flush();
  }) == "");
  CHECK(ranks.log.text == "0all_reduce1 ( 0broadcast2 ) ");
}

TEST_CASE("LaunchGroup: a member has finished when all devices have, even if it was far ahead") {
  Ranks ranks(4);
  constexpr std::size_t kRequests = 5000;  // far more than a member may be ahead
  for (auto& issuer : ranks.issuers) {
    issuer->keeps_log = false;
    issuer->polls_until_finished = 100;
  }
  CHECK(ranks.run([&](LaunchGroup::Member& member, Team&) {
    for (std::size_t i = 0; i < kRequests; ++i) {
      IssueRequest& request = member.next_request();
      request.kind = Kind::exchange;
      request.count = 0;
      request.sends.assign(i % 4, Transfer{0, nullptr, 1});
      member.submit();
    }
    submit(member, Kind::synchronize);
    member.flush();
    for (const auto& issuer : ranks.issuers) {
      if (issuer->polls <= issuer->polls_until_finished) throw std::runtime_error("not finished");
      if (issuer->sum != kRequests / 4 * 6) throw std::runtime_error("lost a request");
    }
  }) == "");
}

TEST_CASE("LaunchGroup: flush returns when all submitted requests are issued") {
  Ranks ranks(2);
  CHECK(ranks.run([&](LaunchGroup::Member& member, Team&) {
    for (std::size_t i = 1; i <= 300; ++i) {
      submit(member, Kind::record_timestamp, 1);
      member.flush();
      if (ranks.issuers[0]->sum < i) throw std::runtime_error("the first member had not issued it");
    }
  }) == "");
  CHECK(ranks.issuers[1]->sum == 300);
}

TEST_CASE("LaunchGroup: a graph is released as soon as it is issued") {
  Ranks ranks(2);
  const auto graph = std::make_shared<int>(0);
  CHECK(ranks.run([&](LaunchGroup::Member& member, Team&) {
    IssueRequest& request = member.next_request();
    request.kind = Kind::issue_graph;
    request.graph = graph;
    member.submit();
    submit(member, Kind::synchronize);
    member.flush();
  }) == "");
  CHECK(graph.use_count() == 1);
}

TEST_CASE("LaunchGroup: a kind that differs from the first member's is an error") {
  Ranks ranks(2);
  const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
    submit(member, team.rank() == 0 ? Kind::all_reduce : Kind::copy);
    submit(member, Kind::synchronize);
    member.flush();
  });
  CHECK(complaints.find("submitted copy, but the first member submitted all_reduce") != std::string::npos);
}

TEST_CASE("LaunchGroup: a member that ends before the first one is an error") {
  Ranks ranks(2);
  const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
    submit(member, Kind::copy);
    if (team.rank() == 0) submit(member, Kind::reduce);
  });
  CHECK(complaints == "a member of a launch group has ended before the first member submitted reduce; ");
}

TEST_CASE("LaunchGroup: a member that continues after the first one is an error") {
  Ranks ranks(2);
  const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
    submit(member, Kind::copy);
    if (team.rank() == 0) return;
    submit(member, Kind::reduce);
    member.flush();
  });
  CHECK(complaints == "member 1 of a launch group submitted reduce after the first member has ended; ");
}

TEST_CASE("LaunchGroup: a member that fills its queue after the first one has ended is an error") {
  Ranks ranks(2);
  const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
    for (int i = 0; team.rank() != 0 && i < 1000; ++i) submit(member, Kind::reduce);
  });
  CHECK(complaints == "member 1 of a launch group continues after the first member has ended; ");
}

TEST_CASE("LaunchGroup: a failing device aborts the job, and all issuers recover in the first member's thread") {
  Ranks ranks(3);
  ranks.issuers[2]->fails_at = 4;
  const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team&) {
    for (std::size_t i = 0; i < 10; ++i) submit(member, Kind::all_reduce, i);
    submit(member, Kind::synchronize);
    member.flush();
  });
  CHECK(complaints == "the device is lost; aborted; aborted; ");
  for (const auto& issuer : ranks.issuers) CHECK(issuer->recovered >= 1);
}

TEST_CASE("LaunchGroup: after any failure, every open NCCL group is ended or aborted once") {
  Ranks ranks(2);
  std::string expected;
  SUBCASE("an operation") {
    ranks.issuers[1]->fails_at = 4;
    const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team&) {
      submit(member, Kind::begin_nccl_group);
      submit(member, Kind::reduce, 3);
      submit(member, Kind::reduce, 4);
      submit(member, Kind::end_nccl_group);
      member.flush();
    });
    CHECK(complaints == "the device is lost; aborted; ");
    expected = "( ( 0reduce3 1reduce3 ) ( 0reduce4 !) !) ";
  }
  SUBCASE("a start") {
    ranks.issuers[0]->fails_to_start = true;
    const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team&) {
      submit(member, Kind::begin_nccl_group);
      submit(member, Kind::reduce, 3);
      member.flush();
    });
    CHECK(complaints == "the device is lost; aborted; ");
    expected = "( ( 0reduce3 1reduce3 ) !) ";
  }
  SUBCASE("the first member, outside of its requests") {
    const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
      submit(member, Kind::begin_nccl_group);
      if (team.rank() == 0) throw std::runtime_error("given up");
      submit(member, Kind::reduce, 3);
      member.flush();
    });
    CHECK(complaints == "given up; aborted; ");
    expected = "( !) ";
  }
  CHECK(ranks.log.text == expected);
}

TEST_CASE("LaunchGroup: an abort ends every wait, of the first member and of the others") {
  SUBCASE("the first member waits for a request") {
    Ranks ranks(3);
    const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
      if (team.rank() == 1) throw std::runtime_error("given up");
      for (int i = 0; i < 1000; ++i) submit(member, Kind::reduce);
      member.flush();
    });
    CHECK(complaints.find("given up; ") != std::string::npos);
    CHECK(complaints.find("aborted; ") != std::string::npos);
  }
  SUBCASE("devices never finish") {
    Ranks ranks(3);
    for (auto& issuer : ranks.issuers) issuer->polls_until_finished = 1 << 30;
    const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
      submit(member, Kind::synchronize);
      if (team.rank() == 2) throw std::runtime_error("given up");
      member.flush();
    });
    CHECK(complaints == "aborted; aborted; given up; ");
  }
}

TEST_CASE("LaunchGroup: if a member has failed before the first one joins, the first one does not start") {
  const auto teams = ThreadTeam::make(2);
  IssueLog log;
  LoggingIssuer first(log, 0);
  LoggingIssuer second(log, 1);
  LaunchGroup group(2);
  {
    const LaunchGroup::Member failed(group, 1, second, *teams[1]);
  }
  CHECK_THROWS_AS(LaunchGroup::Member(group, 0, first, *teams[0]), JobAborted);
}

TEST_CASE("IssueRequest: every kind has a unique name") {
  std::vector<std::string> names;
  for (int kind = 0; kind <= static_cast<int>(Kind::synchronize); ++kind)
    names.emplace_back(name(static_cast<Kind>(kind)));
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) CHECK(names[i] != names[j]);
}
