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

/// What the launchers of a group were asked to do, in order, and by which threads.
struct Diary {
  std::mutex mutex;
  std::string text;
  std::vector<std::thread::id> threads;

  void add(const std::string& entry) {
    const std::scoped_lock lock(mutex);
    text += entry + " ";
    if (threads.empty() || threads.back() != std::this_thread::get_id()) threads.push_back(std::this_thread::get_id());
  }
};

class DiaryLauncher final : public OperationIssuer {
 public:
  DiaryLauncher(Diary& diary, int number) : diary_(diary), number_(number) {}

  void run(const IssueRequest& launch) override {
    if (launch.count == fails_at) throw EnvironmentError("the device is lost");
    sum += launch.count;
    for (const Transfer& send : launch.sends) sum += send.count;
    if (keeps_diary) diary_.add(std::to_string(number_) + name(launch.kind) + std::to_string(launch.count));
  }
  void begin_nccl_group() override { note("("); }
  void end_nccl_group() override {
    note(")");
    if (fails_to_start) throw EnvironmentError("the device is lost");
  }
  void abort_nccl_group() noexcept override { note("!)"); }
  bool finished() override { return ++looks > looks_until_finished; }
  void recover() noexcept override { ++recovered; }

  bool keeps_diary = true;
  bool fails_to_start = false;
  std::size_t fails_at = static_cast<std::size_t>(-1);
  int looks_until_finished = 0;
  int looks = 0;
  int recovered = 0;
  std::size_t sum = 0;

 private:
  void note(const char* what) {
    if (keeps_diary) diary_.add(what);
  }
  Diary& diary_;
  int number_;
};

void ask(LaunchGroup::Member& member, Kind kind, std::size_t count = 0) {
  IssueRequest& launch = member.next_request();
  launch.kind = kind;
  launch.count = count;
  launch.sends.clear();
  member.submit();
}

struct Ranks {
  explicit Ranks(int size) : group(size) {
    for (int i = 0; i < size; ++i) launchers.push_back(std::make_unique<DiaryLauncher>(diary, i));
  }
  /// `body` as every member; complaints of all, each of which ends the job for the others.
  std::string run(const std::function<void(LaunchGroup::Member&, Team&)>& body) {
    return run_threads(group.size(), [&](Team& team) -> std::string {
      std::string complaint;
      LaunchGroup::Member member(group, team.rank(), *launchers[static_cast<std::size_t>(team.rank())], team);
      team.barrier();
      try {
        body(member, team);
      } catch (const JobAborted&) {
        complaint = "aborted; ";
      } catch (const std::exception& error) {
        complaint = std::string(error.what()) + "; ";
      }
      // As in a run: the others are told before the member goes.
      if (!complaint.empty()) static_cast<ThreadTeam&>(team).abort();
      return complaint;
    });
  }

  Diary diary;
  std::vector<std::unique_ptr<DiaryLauncher>> launchers;
  LaunchGroup group;
};

}  // namespace

TEST_CASE("LaunchGroup: the first member does everything, operation by operation, collectives of all as one") {
  Ranks ranks(3);
  const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team&) {
    ask(member, Kind::stamp, 0);
    ask(member, Kind::all_reduce, 5);
    ask(member, Kind::copy, 7);
    ask(member, Kind::begin_group);
    ask(member, Kind::exchange, 8);
    ask(member, Kind::end_group);
    ask(member, Kind::synchronize);
    member.flush();
  });
  CHECK(complaints.empty());
  CHECK(ranks.diary.text ==
        "0stamp0 1stamp0 2stamp0 ( 0all_reduce5 1all_reduce5 2all_reduce5 ) 0copy7 1copy7 2copy7 "
        "( ( 0exchange8 1exchange8 2exchange8 ) ) ");
  CHECK(ranks.diary.threads.size() == 1);
}

TEST_CASE("LaunchGroup: alone a member needs no joint start") {
  Ranks ranks(1);
  CHECK(ranks.run([](LaunchGroup::Member& member, Team&) {
    ask(member, Kind::all_reduce, 1);
    ask(member, Kind::begin_group);
    ask(member, Kind::broadcast, 2);
    ask(member, Kind::end_group);
    ask(member, Kind::synchronize);
    member.flush();
  }) == "");
  CHECK(ranks.diary.text == "0all_reduce1 ( 0broadcast2 ) ");
}

TEST_CASE("LaunchGroup: a member has finished when all devices have, however far it was ahead") {
  Ranks ranks(4);
  constexpr std::size_t kLaunches = 5000;  // many times what a member may be ahead
  for (auto& launcher : ranks.launchers) {
    launcher->keeps_diary = false;
    launcher->looks_until_finished = 100;
  }
  CHECK(ranks.run([&](LaunchGroup::Member& member, Team&) {
    for (std::size_t i = 0; i < kLaunches; ++i) {
      IssueRequest& launch = member.next_request();
      launch.kind = Kind::exchange;
      launch.count = 0;
      launch.sends.assign(i % 4, Transfer{0, nullptr, 1});
      member.submit();
    }
    ask(member, Kind::synchronize);
    member.flush();
    for (const auto& launcher : ranks.launchers) {
      if (launcher->looks <= launcher->looks_until_finished) throw std::runtime_error("not finished");
      if (launcher->sum != kLaunches / 4 * 6) throw std::runtime_error("lost a launch");
    }
  }) == "");
}

TEST_CASE("LaunchGroup: flush returns when what was submitted is done") {
  Ranks ranks(2);
  CHECK(ranks.run([&](LaunchGroup::Member& member, Team&) {
    for (std::size_t i = 1; i <= 300; ++i) {
      ask(member, Kind::stamp, 1);
      member.flush();
      if (ranks.launchers[0]->sum < i) throw std::runtime_error("the first was not through");
    }
  }) == "");
  CHECK(ranks.launchers[1]->sum == 300);
}

TEST_CASE("LaunchGroup: a recording is let go of as soon as it is issued") {
  Ranks ranks(2);
  const auto recording = std::make_shared<int>(0);
  CHECK(ranks.run([&](LaunchGroup::Member& member, Team&) {
    IssueRequest& launch = member.next_request();
    launch.kind = Kind::issue_recording;
    launch.recording = recording;
    member.submit();
    ask(member, Kind::synchronize);
    member.flush();
  }) == "");
  CHECK(recording.use_count() == 1);
}

TEST_CASE("LaunchGroup: another kind than the first one's is said") {
  Ranks ranks(2);
  const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
    ask(member, team.rank() == 0 ? Kind::all_reduce : Kind::copy);
    ask(member, Kind::synchronize);
    member.flush();
  });
  CHECK(complaints.find("asks for copy where the first asks for all_reduce") != std::string::npos);
}

TEST_CASE("LaunchGroup: a member that ends before the first one is said") {
  Ranks ranks(2);
  const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
    ask(member, Kind::copy);
    if (team.rank() == 0) ask(member, Kind::reduce);
  });
  CHECK(complaints == "a member of a launch group has ended, and the first asks for reduce; ");
}

TEST_CASE("LaunchGroup: a member that goes on after the first one is said") {
  Ranks ranks(2);
  const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
    ask(member, Kind::copy);
    if (team.rank() == 0) return;
    ask(member, Kind::reduce);
    member.flush();
  });
  CHECK(complaints == "member 1 of a launch group asks for reduce, and the first has ended; ");
}

TEST_CASE("LaunchGroup: a member that fills its slots after the first one has ended is said") {
  Ranks ranks(2);
  const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
    for (int i = 0; team.rank() != 0 && i < 1000; ++i) ask(member, Kind::reduce);
  });
  CHECK(complaints == "member 1 of a launch group goes on, and the first has ended; ");
}

TEST_CASE("LaunchGroup: a device that fails ends the job of all, and all launchers recover in the first one's thread") {
  Ranks ranks(3);
  ranks.launchers[2]->fails_at = 4;
  const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team&) {
    for (std::size_t i = 0; i < 10; ++i) ask(member, Kind::all_reduce, i);
    ask(member, Kind::synchronize);
    member.flush();
  });
  CHECK(complaints == "the device is lost; aborted; aborted; ");
  for (const auto& launcher : ranks.launchers) CHECK(launcher->recovered >= 1);
}

TEST_CASE("LaunchGroup: whatever fails, every joint start that was begun is ended or abandoned, once") {
  Ranks ranks(2);
  std::string written;
  SUBCASE("an operation") {
    ranks.launchers[1]->fails_at = 4;
    const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team&) {
      ask(member, Kind::begin_group);
      ask(member, Kind::reduce, 3);
      ask(member, Kind::reduce, 4);
      ask(member, Kind::end_group);
      member.flush();
    });
    CHECK(complaints == "the device is lost; aborted; ");
    written = "( ( 0reduce3 1reduce3 ) ( 0reduce4 !) !) ";
  }
  SUBCASE("a start") {
    ranks.launchers[0]->fails_to_start = true;
    const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team&) {
      ask(member, Kind::begin_group);
      ask(member, Kind::reduce, 3);
      member.flush();
    });
    CHECK(complaints == "the device is lost; aborted; ");
    written = "( ( 0reduce3 1reduce3 ) !) ";
  }
  SUBCASE("the first member, outside of its launches") {
    const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
      ask(member, Kind::begin_group);
      if (team.rank() == 0) throw std::runtime_error("given up");
      ask(member, Kind::reduce, 3);
      member.flush();
    });
    CHECK(complaints == "given up; aborted; ");
    written = "( !) ";
  }
  CHECK(ranks.diary.text == written);
}

TEST_CASE("LaunchGroup: an abort ends every wait, of the first member and of the others") {
  SUBCASE("the first waits for a launch") {
    Ranks ranks(3);
    const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
      if (team.rank() == 1) throw std::runtime_error("given up");
      for (int i = 0; i < 1000; ++i) ask(member, Kind::reduce);
      member.flush();
    });
    CHECK(complaints.find("given up; ") != std::string::npos);
    CHECK(complaints.find("aborted; ") != std::string::npos);
  }
  SUBCASE("devices never finish") {
    Ranks ranks(3);
    for (auto& launcher : ranks.launchers) launcher->looks_until_finished = 1 << 30;
    const std::string complaints = ranks.run([](LaunchGroup::Member& member, Team& team) {
      ask(member, Kind::synchronize);
      if (team.rank() == 2) throw std::runtime_error("given up");
      member.flush();
    });
    CHECK(complaints == "aborted; aborted; given up; ");
  }
}

TEST_CASE("LaunchGroup: where a member has failed before the first one came, the first one does not begin") {
  const auto teams = ThreadTeam::make(2);
  Diary diary;
  DiaryLauncher first(diary, 0);
  DiaryLauncher second(diary, 1);
  LaunchGroup group(2);
  {
    const LaunchGroup::Member gone(group, 1, second, *teams[1]);
  }
  CHECK_THROWS_AS(LaunchGroup::Member(group, 0, first, *teams[0]), JobAborted);
}

TEST_CASE("Launch: every kind has a name of its own") {
  std::vector<std::string> names;
  for (int kind = 0; kind <= static_cast<int>(Kind::synchronize); ++kind)
    names.emplace_back(name(static_cast<Kind>(kind)));
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) CHECK(names[i] != names[j]);
}
