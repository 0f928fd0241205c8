// A program that calls NCCL's functions and prints their results.
//
// Usage: caller PLACE COMMAND...   PLACE: a library to open, or - for the program's own libraries
//   all              calls with every kind of argument, twice
//   every            number of functions with the return values of fakes/every.cpp
//   version          result of ncclGetVersion
//   late FILE LINK   a call before there is a LINK to FILE, and one after
//   after FILE       a call after FILE was opened, as programs do that load NCCL while they run
//   race             the first calls of many threads at once
//   function NAME    result of the function NAME with the argument 41, if it exists
//   text NAME        the same for a function that returns a text
//   alias NAME       the file that the function NAME is in
// LINKED: the program is linked with libnccl.so.2.
#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "fakes/number_of.hpp"

#ifdef LINKED
extern "C" int ncclGetVersion(int*);
#endif

#if defined(__SANITIZE_THREAD__)
/// The loader writes library names in one thread and reads them in others, protected by a lock that the sanitizer does
/// not see.
extern "C" const char* __tsan_default_suppressions() { return "race:ld-linux-"; }
#endif

namespace {

struct UniqueId {
  unsigned char bytes[128];
};

class Library {
 public:
  explicit Library(const char* place)
      : handle_(std::strcmp(place, "-") == 0 ? RTLD_DEFAULT : dlopen(place, RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_ && std::strcmp(place, "-") != 0) std::printf("%s\n", dlerror());
  }
  template <class Function>
  Function* get(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(handle_, name));
  }

 private:
  void* handle_;
};

void* pointer(std::uintptr_t value) { return reinterpret_cast<void*>(value); }

int version_of(const Library& library) {
  int version = 0;
#ifdef LINKED
  static_cast<void>(library);
  const int result = ncclGetVersion(&version);
#else
  const int result = library.get<int(int*)>("ncclGetVersion")(&version);
#endif
  return result ? -result : version;
}

int all_reduce(const Library& library, std::uintptr_t seed) {
  return library.get<int(const void*, void*, std::size_t, int, int, void*, void*)>("ncclAllReduce")(
      pointer(seed + 1), pointer(seed + 2), seed + 3, 7, 2, pointer(seed + 4), pointer(seed + 5));
}

void call_all(const Library& library) {
  for (int round = 0; round < 2; ++round) {
    UniqueId id{};
    for (int i = 0; i < 128; ++i) id.bytes[i] = static_cast<unsigned char>(i * 7 + round);
    std::uint64_t comm = 0;
    const int joined = library.get<int(std::uint64_t*, int, UniqueId, int)>("ncclCommInitRank")(&comm, 4, id, 3);
    using Doubles = double(double, double, double, double, double, double, double, double, int, int, int, int, int, int,
                           int, double);
    auto* const doubles = library.get<Doubles>("ncclGatherConfig");
    std::printf(
        "version %d, pnccl %d, joined %d %016llx, all_reduce %d, doubles %.0f, text %s\n", version_of(library),
        [&] {
          int version = 0;
          library.get<int(int*)>("pncclGetVersion")(&version);
          return version;
        }(),
        joined, static_cast<unsigned long long>(comm), all_reduce(library, 1000),
        doubles ? doubles(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16) : -1.0,
        library.get<const char*(int)>("ncclGetErrorString")(1));
  }
}

void race(const Library& library) {
  constexpr int kThreads = 8;
  std::barrier start(kThreads);
  std::array<bool, kThreads> right{};
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      const int first = all_reduce(library, 500);
      right[i] = first == all_reduce(library, 500) && first > 5;
    });
  threads.clear();
  int good = 0;
  for (const bool one : right) good += one;
  std::printf("%d of %d threads\n", good, kThreads);
}

void call_late(const Library& library, const char* file, const char* link) {
  std::printf("%d\n", all_reduce(library, 100));
  if (symlink(file, link) != 0) std::printf("no link\n");
  std::printf("%d\n", all_reduce(library, 100));
}

void call_after(const Library& library, const char* file) {
  if (!dlopen(file, RTLD_NOW | RTLD_LOCAL)) std::printf("%s\n", dlerror());
  std::printf("%d\n", all_reduce(library, 100));
}

void call_every(const Library& library) {
  constexpr std::array names{
#define FORWARDED_FUNCTION(index, name, since) name,
#include FASTPATH_EXPORTS
  };
  int right = 0;
  for (const char* const name : names)
    if (auto* const function = library.get<int()>(name); function && function() == number_of(name))
      ++right;
    else
      std::printf("%s goes elsewhere\n", name);
  std::printf("%d of %zu functions\n", right, names.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const Library library(argv[1]);
  const std::string_view command = argv[2];
  if (command == "all") call_all(library);
  if (command == "every") call_every(library);
  if (command == "version") std::printf("%d\n", version_of(library));
  if (command == "race") race(library);
  if (command == "late") return call_late(library, argv[3], argv[4]), 0;
  if (command == "after") return call_after(library, argv[3]), 0;
  for (int i = 3; i < argc; ++i) {
    auto* const function = library.get<int(int)>(argv[i]);
    std::printf("%s: ", argv[i]);
    if (!function) {
      std::printf("none\n");
    } else if (command == "function") {
      std::printf("%d\n", function(41));
    } else if (command == "text") {
      std::printf("%s\n", library.get<const char*(int)>(argv[i])(41));
    } else {
      Dl_info where{};
      dladdr(reinterpret_cast<void*>(function), &where);
      std::printf("%s\n", where.dli_fname);
    }
    std::fflush(stdout);
  }
}
