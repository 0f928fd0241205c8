#include "rendezvous/launcher_store/shared_text.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>

#include "support_errors.hpp"

using namespace busbw;

namespace {

constexpr const char* kVariable = "BUSBW_PMIX";
constexpr int kLimitTicks = 2;

/// The fake library, which the client finds by BUSBW_PMIX.
class FakePmix {
 public:
  explicit FakePmix(const char* held = "", const char* failing = "") : library_(dlopen(BUSBW_FAKE_PMIX, RTLD_NOW)) {
    REQUIRE(library_);
    setenv(kVariable, BUSBW_FAKE_PMIX, /*overwrite=*/1);
    function<void(const char*, const char*)>("fake_pmix_begin")(held, failing);
  }
  ~FakePmix() {
    release();
    unsetenv(kVariable);
    dlclose(library_);
  }
  FakePmix(const FakePmix&) = delete;
  FakePmix& operator=(const FakePmix&) = delete;

  /// Lets the held function answer, and waits for its callback.
  void release() const { function<void()>("fake_pmix_release")(); }
  int finalize_count() const { return function<int()>("fake_pmix_finalize_count")(); }

 private:
  template <class Signature>
  Signature* function(const char* name) const {
    auto* found = reinterpret_cast<Signature*>(dlsym(library_, name));
    const bool is_found = found != nullptr;  // doctest cannot print a pointer to a function
    REQUIRE(is_found);
    return found;
  }

  void* library_;
};

std::string share(int process, const std::string& text = "", int limit_ticks = 600) {
  return share_text_by_pmix(process, text, {.limit_ticks = limit_ticks, .on_tick = [] {}});
}

}  // namespace

TEST_CASE("PMIx: every process gets the text that process 0 published, and disconnects") {
  const FakePmix fake;
  CHECK(share(0, "10.0.0.1:4711") == "10.0.0.1:4711");
  CHECK(share(1) == "10.0.0.1:4711");
  CHECK(fake.finalize_count() == 2);
}

TEST_CASE("PMIx: a wait without an answer ends with its limit, and a late answer harms nothing") {
  for (const char* function : {"PMIx_Init", "PMIx_Fence_nb", "PMIx_Get_nb"}) {
    CAPTURE(function);
    const FakePmix fake(function);
    try {
      share(1, "", kLimitTicks);
      FAIL("the wait has no limit");
    } catch (const Error& error) {
      CHECK(error.exit() == ExitCode::rank_lost);
      check_names(error.what(), {"PMIx", "in 0.2 s", "BUSBW_JOIN_TIMEOUT_S"});
    }
    // Only a client that PMIx_Init made disconnects.
    CHECK(fake.finalize_count() == (std::string(function) == "PMIx_Init" ? 0 : 1));
    fake.release();
    CHECK(share(0, "again") == "again");
    CHECK(share(1) == "again");
  }
}

TEST_CASE("PMIx: the error names the function that failed, at once or in its callback") {
  for (const char* function : {"PMIx_Init", "PMIx_Put", "PMIx_Commit", "PMIx_Fence_nb"}) {
    const FakePmix fake("", function);
    check_names(sentence_of<EnvironmentError>([] { share(0, "a"); }), {function, " failed: FAILED;"});
  }
  const FakePmix fake("", "PMIx_Get_nb");
  check_names(sentence_of<EnvironmentError>([] { share(1); }), {"PMIx_Get_nb failed: FAILED;"});
  for (const std::string function : {"PMIx_Fence_nb", "PMIx_Get_nb"}) {
    const FakePmix late("", ("later " + function).c_str());
    check_names(sentence_of<EnvironmentError>([] { share(1); }), {function + " failed: FAILED-LATER;"});
    CHECK(late.finalize_count() == 1);
  }
}

TEST_CASE("PMIx: an abort of the job ends the wait") {
  const FakePmix fake("PMIx_Fence_nb");
  const StoreWait wait{.limit_ticks = 600, .on_tick = [] { throw JobAborted(); }};
  CHECK_THROWS_AS(share_text_by_pmix(1, "", wait), JobAborted);
}

TEST_CASE("PMIx: the error names a missing library or function") {
  const FakePmix fake;
  setenv(kVariable, BUSBW_FAKE_NCCL, /*overwrite=*/1);
  check_names(sentence_of<EnvironmentError>([] { share(0, "a"); }), {"the library has no function PMIx_Init"});
  setenv(kVariable, "/nowhere/libpmix.so.2", /*overwrite=*/1);
  check_names(sentence_of<EnvironmentError>([] { share(0, "a"); }), {"/nowhere/libpmix.so.2", "install libpmix"});
}
