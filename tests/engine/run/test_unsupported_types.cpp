#include "run/unsupported_types.hpp"

#include <doctest/doctest.h>

#include "backends/host/memory/shared_memory_backend.hpp"
#include "collectives/registry.hpp"
#include "support_errors.hpp"

using namespace busbw;

namespace {

/// Cannot do one type at all, and another one not where it is to be reduced.
class PoorBackend final : public Backend {
 public:
  std::optional<Limitation> limitation_of(Dtype dtype, bool reduces) const override {
    if (dtype == Dtype::f8e4m3) return Limitation{"it is too old", "use a new one"};
    if (dtype == Dtype::bfloat16 && reduces) return Limitation{"its GPU is too old", "use newer ones"};
    return std::nullopt;
  }
  std::string name() const override { return "poor"; }
  std::string version() const override { return "0"; }
  Device device(int) const override { return {}; }
  std::size_t available_bytes(int) const override { return 0; }
  std::size_t work_bytes(int) const override { return 0; }
  void reserve(int, std::size_t) override {}
  std::unique_ptr<Communicator> connect(Team&, Team&) override { return nullptr; }
};

DataChoice choice(std::vector<Dtype> dtypes) { return {std::move(dtypes), {Redop::sum}, {}}; }
const DataChoice kAll = choice({kDtypes.begin(), kDtypes.end()});

std::vector<UnsupportedType> find_unsupported(const DataChoice& data, const char* collective, const Backend& backend) {
  return unsupported_types(data, *make_collective(collective, {}), backend);
}

}  // namespace

TEST_CASE("lacked_types: of all types those that the backend cannot move, and where it must those it cannot reduce") {
  const PoorBackend poor;
  using Types = std::vector<Dtype>;
  CHECK(dtypes_of(find_unsupported(kAll, "all_reduce", poor)) == Types{Dtype::bfloat16, Dtype::f8e4m3});
  // It loops over operators, and reduces nothing.
  for (const char* collective : {"sendrecv", "all_gather"})
    CHECK(dtypes_of(find_unsupported(kAll, collective, poor)) == Types{Dtype::f8e4m3});
  CHECK(find_unsupported(kAll, "all_reduce", SharedMemoryBackend(1, 1, "0")).empty());
}

TEST_CASE("lacked_types: one that was named ends the run, with the reason and what to do") {
  const PoorBackend poor;
  CHECK(sentence_of<EnvironmentError>([&] { find_unsupported(choice({Dtype::f8e4m3}), "broadcast", poor); }) ==
        "-d f8e4m3 (--datatype): it is too old; use a new one, or measure another type");
  check_names(sentence_of<EnvironmentError>([&] { find_unsupported(choice({Dtype::bfloat16}), "reduce", poor); }),
              {"-d bfloat16", "its GPU is too old"});
  CHECK(find_unsupported(choice({Dtype::bfloat16}), "broadcast", poor).empty());
}

TEST_CASE("without: the other types, in their order") {
  const DataChoice left = exclude_types(kAll, {Dtype::int8, Dtype::f8e5m2});
  CHECK(left.dtypes.size() == kDtypes.size() - 2);
  CHECK(left.dtypes.front() == Dtype::uint8);
  CHECK(left.dtypes.back() == Dtype::f8e4m3);
  CHECK(left.redops == kAll.redops);
}

TEST_CASE("notes_on: a sentence for each reason, with all types that it keeps away") {
  CHECK(excluded_type_notes({}).empty());
  const Limitation old{"it is too old", "use a new one"};
  const auto notes = excluded_type_notes({{Dtype::f8e4m3, old}, {Dtype::float16, {"no", "do"}}, {Dtype::f8e5m2, old}});
  REQUIRE(notes.size() == 2);
  CHECK(notes[0] == "-d all leaves out f8e4m3 and f8e5m2: it is too old; use a new one to measure them");
  CHECK(notes[1] == "-d all leaves out half: no; do to measure it");
}
