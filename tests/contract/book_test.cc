#include <thread>

#include "tests/contract/fixture.h"

namespace ferry::contract {
namespace {

class Book : public ContractTest {};

TEST_F(Book, APublishedRegionIsFoundAndUsable) {
  open();
  auto piece = make_piece(b(), 64);
  must(b().publish("weights", piece.remote));
  auto found = must(ab().look_up("weights", soon()));
  EXPECT_EQ(found, piece.remote);
  std::byte bytes[64];
  stamp(bytes, 1);
  must(ab().write(bytes, found));
  EXPECT_TRUE(stamped(piece.bytes(), 1));
}

TEST_F(Book, BothSidesHaveOne) {
  open();
  auto at_a = make_piece(a(), 64);
  auto at_b = make_piece(b(), 64);
  must(a().publish("name", at_a.remote));
  must(b().publish("name", at_b.remote));
  EXPECT_EQ(must(ab().look_up("name", soon())), at_b.remote);
  EXPECT_EQ(must(ba().look_up("name", soon())), at_a.remote);
}

TEST_F(Book, LookingUpWaitsForTheName) {
  open();
  auto piece = make_piece(b(), 64);
  std::thread publisher([&] {
    std::this_thread::sleep_for(30ms);
    must(b().publish("late", piece.remote));
  });
  EXPECT_EQ(must(ab().look_up("late", soon())), piece.remote);
  publisher.join();
}

TEST_F(Book, AnAbsentNameIsNotFoundByTheDeadline) {
  open();
  auto code = code_of(ab().look_up("nobody", Deadline::after(patiently(50ms))));
  EXPECT_TRUE(code == Code::kNotFound || code == Code::kDeadlineExceeded) << name_of(code);
}

TEST_F(Book, WithdrawnNamesAreGone) {
  open();
  auto piece = make_piece(b(), 64);
  must(b().publish("name", piece.remote));
  must(ab().look_up("name", soon()));
  must(b().withdraw("name"));
  EXPECT_FALSE(ab().look_up("name", Deadline::after(patiently(50ms))));
  EXPECT_EQ(code_of(b().withdraw("name")), Code::kNotFound);
}

TEST_F(Book, ANameIsTakenOnce) {
  auto device = open_device();
  auto piece = make_piece(device, 64);
  must(device.publish("name", piece.remote));
  EXPECT_EQ(code_of(device.publish("name", piece.remote)), Code::kAlreadyExists);
  must(device.withdraw("name"));
  EXPECT_TRUE(device.publish("name", piece.remote));
}

TEST_F(Book, TheNumberOfNamesIsLimited) {
  auto options = device_options();
  options.max_names = 10;
  auto device = open_device(options);
  auto piece = make_piece(device, 64);
  for (int i = 0; i < 10; ++i) must(device.publish("name " + std::to_string(i), piece.remote));
  EXPECT_EQ(code_of(device.publish("one more", piece.remote)), Code::kResourceExhausted);
}

TEST_F(Book, AThousandNames) {
  open();
  auto count = rounds(1000);
  auto region = must(b().allocate(4096));
  std::vector<RemoteRegion> grants;
  for (int i = 0; i < count; ++i) {
    grants.push_back(must(b().grant(region, Rights::kReadWrite)));
    must(b().publish("region/" + std::to_string(i), grants.back()));
  }
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(must(ab().look_up("region/" + std::to_string(i), soon())),
              grants[static_cast<std::size_t>(i)]);
  }
  for (int i = 0; i < count; ++i) {
    must(b().withdraw("region/" + std::to_string(i)));
    must(b().revoke(grants[static_cast<std::size_t>(i)], soon()));
  }
}

TEST_F(Book, LookingUpEndsWhenThePeerIsGone) {
  open();
  std::thread closer([&] {
    std::this_thread::sleep_for(30ms);
    b().close();
  });
  EXPECT_EQ(code_of(ab().look_up("never", soon())), Code::kUnavailable);
  closer.join();
}

TEST_F(Book, StrangeNamesAreNames) {
  open();
  auto piece = make_piece(b(), 64);
  for (const std::string& name :
       {std::string("a b"), std::string("\0\n\xff", 3), std::string(200, 'x')}) {
    must(b().publish(name, piece.remote));
    EXPECT_EQ(must(ab().look_up(name, soon())), piece.remote);
    must(b().withdraw(name));
  }
  EXPECT_EQ(code_of(b().publish("", piece.remote)), Code::kInvalidArgument);
}

}  // namespace
}  // namespace ferry::contract
