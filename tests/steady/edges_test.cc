#include "ferry/transfer/dynamic_slot.h"
#include "ferry/transfer/shared_tensor.h"
#include "ferry/transfer/static_slot.h"
#include "tests/steady/kit.h"

namespace ferry::steady {
namespace {

using tensor::ElementType;
using tensor::Shape;
using tensor::Spec;
using tensor::Tensor;

Spec spec_of(std::int64_t floats) { return {ElementType::kF32, must(Shape::of({floats}))}; }

class Edges : public EachProvider {
 protected:
  static bool maps(const std::string& provider) { return provider != "tcp"; }
  static void static_edge(bool in_place) {
    const std::string provider = GetParam();
    expect_free(provider, [&](const Repeat& repeat) {
      Pair pair(provider);
      const auto spec = spec_of(4096);
      auto receiver = must(transfer::StaticReceiver::open(pair.b, pair.ba, spec));
      auto sender = must(transfer::StaticSender::open(pair.a, pair.ab, receiver.ticket(), spec,
                                                      {.in_place = in_place}));
      repeat([&] {
        auto out = must(sender.output());
        must(sender.send(out, soon()));
        must(must(receiver.receive(soon())).release());
      });
      must(sender.drain(soon()));
    });
  }
  // The sizes change from round to round.
  static void dynamic_edge(bool in_place) {
    const std::string provider = GetParam();
    expect_free(provider, [&](const Repeat& repeat) {
      Pair pair(provider);
      const Spec open_spec{ElementType::kF32, must(Shape::of({Shape::kUnknown}))};
      auto receiver = must(transfer::DynamicReceiver::open(pair.b, pair.ba, open_spec));
      auto sender = must(transfer::DynamicSender::open(pair.a, pair.ab, receiver.ticket(),
                                                       open_spec, {.in_place = in_place}));
      const Spec specs[] = {spec_of(100), spec_of(4096), spec_of(1)};
      std::size_t round = 0;
      repeat([&] {
        auto out = must(sender.output(specs[round++ % 3]));
        must(sender.send(out, soon()));
        must(must(receiver.receive(soon())).release());
      });
      must(sender.drain(soon()));
    });
  }
};
INSTANTIATE_TEST_SUITE_P(On, Edges, ::testing::Values("shm", "tcp", "fake"), provider_name);

TEST_P(Edges, StaticInPlace) { static_edge(true); }
TEST_P(Edges, StaticByCopy) { static_edge(false); }
TEST_P(Edges, DynamicInPlace) { dynamic_edge(true); }
TEST_P(Edges, DynamicByCopy) { dynamic_edge(false); }

TEST_P(Edges, SharedVersions) {
  const std::string provider = GetParam();
  if (!maps(provider)) GTEST_SKIP() << "this path maps nothing";
  expect_free(provider, [&](const Repeat& repeat) {
    Pair pair(provider);
    const auto spec = spec_of(4096);
    auto writer = must(transfer::SharedWriter::open(pair.a, spec));
    auto ticket = must(writer.admit(pair.ab));
    auto reader = must(transfer::SharedReader::open(pair.b, pair.ba, ticket, spec));
    repeat([&] {
      (void)must(writer.output(soon()));
      const auto version = must(writer.publish());
      must(must(reader.read(version, soon())).release());
    });
  });
}

}  // namespace
}  // namespace ferry::steady
