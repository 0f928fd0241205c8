#include "rendezvous/store/address_file.hpp"

#include <doctest/doctest.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>

#include "common/os/descriptor.hpp"
#include "support_wire.hpp"
#include "temporary_folder.hpp"

using namespace busbw;
using namespace busbw::test;

namespace {

/// Counts how often a folder was opened since the last call of count.
class FolderOpenCounter {
 public:
  explicit FolderOpenCounter(const std::string& folder) : watch_(inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {
    REQUIRE(inotify_add_watch(watch_.number(), folder.c_str(), IN_OPEN | IN_ONLYDIR) >= 0);
  }

  int count() {
    int opened = 0;
    alignas(inotify_event) std::array<char, 4096> events{};
    for (ssize_t got = 0; (got = read(watch_.number(), events.data(), events.size())) > 0;) {
      for (ssize_t at = 0; at < got;) {
        inotify_event event{};
        std::memcpy(&event, events.data() + at, sizeof event);
        if ((event.mask & IN_ISDIR) != 0 && event.len == 0) ++opened;
        at += static_cast<ssize_t>(sizeof event + event.len);
      }
    }
    return opened;
  }

 private:
  Descriptor watch_;
};

}  // namespace

TEST_CASE("AddressFile: opens the folder on each attempt, because NFS revalidates its cache only then") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/store";
  const AddressFile waiting(path);
  FolderOpenCounter of_parent(folder.path());
  CHECK_FALSE(waiting.read());
  CHECK(of_parent.count() == 1);  // the store's folder does not exist yet

  REQUIRE(mkdir(path.c_str(), 0700) == 0);
  FolderOpenCounter of_folder(path);
  for (int attempt = 0; attempt < 3; ++attempt) {
    CHECK_FALSE(waiting.read());
    CHECK(of_folder.count() == 1);
  }
  AddressFile(path).publish(bytes_of("here"));
  of_folder.count();
  const auto found = waiting.read();
  REQUIRE(found);
  CHECK(text_of(*found) == "here");
  CHECK(of_folder.count() == 1);
}
