#include <cstring>
#include <functional>

#include "ferry/landing/landing.h"
#include "ferry/landing/launch.h"
#include "ferry/mail/mail_record_internal.h"
#include "tests/contract/mail_kit.h"

// A peer that knows the protocol and does not keep it. It is device a; the mailbox is at b.

namespace ferry::contract {
namespace {

using landing::Landing;
using landing::Launch;
using landing::Layout;
using mail::Announcement;
using mail::MailBatch;
using mail::MailHead;
using mail::MailHello;
using mail::MailKind;
using mail::MailWord;

constexpr std::uint64_t kTiB = std::uint64_t{1} << 40;

class HostileMail : public MailTest {
 protected:
  void TearDown() override {
    launch_ = {};
    landing_ = {};
    words_.reset();
    payload_ = {};
    MailTest::TearDown();
  }

  // With a few small slots, of which it says what `claimed` is.
  MailHello hello(const Layout& claimed) {
    landing_ = must(Landing::open(a(), ab(), must(Layout::of(4, 16 << 10)), 7));
    words_ = must(a().allocate(8 * Layout::kLine));
    MailHello mine;
    mine.slots = claimed.slots;
    mine.rendezvous = 8;
    mine.body = claimed.body;
    mine.nonce = 7;
    mine.most_bytes = kTiB;
    mine.landing = landing_.remote();
    mine.landing.length = claimed.bytes();
    mine.words = must(a().grant(words_, Rights::kReadWrite, ab()));
    return mine;
  }

  void open_hostile(MailboxOptions options = {}) {
    open();
    open_rooms();
    auto mine = hello(must(Layout::of(4, 16 << 10)));
    auto wire = mine.to_wire();
    must(ab().send(wire));
    std::thread other([&] { greet(); });
    auto opened = Mailbox::open(room_b(), b(), ba(), options, soon());
    other.join();
    mail().b.emplace(must(std::move(opened)));
    payload_ = make_piece(a(), 4096);
  }
  // What it does when it has the mailbox's hello.
  void greet() {
    MailHello::Wire theirs;
    must(ab().receive(theirs, soon()));
    hello_ = must(MailHello::from_wire(theirs));
    landing::Address there;
    there.slots = hello_.slots;
    there.body = hello_.body;
    there.nonce = hello_.nonce;
    there.owner = ab().peer();
    there.region = hello_.landing;
    launch_ = must(Launch::open(a(), ab(), there, WaitMode::kAdaptive));
  }

  static Bytes batch_of(const Bytes& records, std::uint32_t count = 1) {
    Bytes bytes(MailBatch::kBytes);
    MailBatch{static_cast<std::uint32_t>(records.size()), count}.store(bytes.data());
    bytes.insert(bytes.end(), records.begin(), records.end());
    return bytes;
  }
  static Bytes record_of(const Announcement& announcement) {
    Bytes bytes(announcement.record_bytes());
    announcement.store(bytes.data());
    return bytes;
  }
  static Bytes eager_of(std::span<const std::byte> payload) {
    Views parts{payload};
    Bytes bytes(mail::eager_record_bytes(parts));
    mail::store_eager(bytes.data(), parts);
    return bytes;
  }
  // An honest announcement of one part.
  Announcement announcement(std::uint64_t bytes = 4096) const {
    Announcement made;
    made.number = 1;
    made.sizes = {bytes};
    made.pieces = {{payload_.remote, 0, 1}};
    return made;
  }
  void put(const Bytes& bytes) { must(launch_.write(bytes, 0, {.deadline = soon()}).wait()); }
  template <class T>
  static void poke(Bytes& bytes, std::size_t at, T value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
  }
  // What the mailbox answers.
  MailWord answer(std::uint32_t index) {
    auto* at = reinterpret_cast<std::uint64_t*>(words_.data() + index * Layout::kLine);
    a().wait_until([at] { return __atomic_load_n(at, __ATOMIC_ACQUIRE) != 0; }, soon());
    return must(MailWord::from_u64(__atomic_load_n(at, __ATOMIC_ACQUIRE)));
  }
  // The mailbox is broken, and stays it. What came before the fault may be received.
  void expect_broken(Code code) {
    auto first = at_b().receive(soon());
    if (first) first = at_b().receive(soon());
    EXPECT_EQ(code_of(first), code);
    EXPECT_EQ(code_of(at_b().receive(soon())), code);
    EXPECT_EQ(code_of(at_b().send_and_wait(Bytes(10), soon())), code);
    EXPECT_EQ(room_b().bytes_in_use(), 0U);
  }

  Landing landing_;
  Launch launch_;
  Region words_;
  MailHello hello_;
  Piece payload_;
};

TEST_F(HostileMail, AnHonestOneIsUnderstood) {
  open_hostile();
  stamp(payload_.bytes(), 3);
  auto small = stamped_bytes(100, 2);
  auto records = eager_of(small);
  auto large = record_of(announcement());
  records.insert(records.end(), large.begin(), large.end());
  put(batch_of(records, 2));
  expect_next(at_b(), 100, 2);
  expect_next(at_b(), 4096, 3);
  EXPECT_EQ(answer(0).number, 1U);
  EXPECT_EQ(answer(0).state, MailWord::State::kDone);
}

// Each spoils one thing in a batch with one small message, or with one announcement.
TEST_F(HostileMail, BatchesThatDoNotAddUpAreNamed) {
  struct Case {
    const char* what;
    bool large;
    std::function<void(Bytes&)> spoil;
  };
  constexpr std::size_t kHead = MailBatch::kBytes;
  constexpr std::size_t kBody = kHead + MailHead::kBytes;
  const std::vector<Case> cases{
      {"more bytes than the slot", false, [](Bytes& b) { poke<std::uint32_t>(b, 0, 1 << 20); }},
      {"bytes that are no multiple of 8", false, [](Bytes& b) { poke<std::uint32_t>(b, 0, 97); }},
      {"no record", false, [](Bytes& b) { poke<std::uint32_t>(b, 4, 0); }},
      {"two records", false, [](Bytes& b) { poke<std::uint32_t>(b, 4, 2); }},
      {"many records", false, [](Bytes& b) { poke<std::uint32_t>(b, 4, ~0U); }},
      {"another kind", false, [](Bytes& b) { poke<std::uint32_t>(b, kHead, 3); }},
      {"too many parts", false, [](Bytes& b) { poke<std::uint32_t>(b, kHead + 4, 1025); }},
      {"three parts", false, [](Bytes& b) { poke<std::uint32_t>(b, kHead + 4, 3); }},
      {"no parts", false, [](Bytes& b) { poke<std::uint32_t>(b, kHead + 4, 0); }},
      {"a huge record", false, [](Bytes& b) { poke<std::uint64_t>(b, kHead + 8, ~7ULL); }},
      {"a short record", false, [](Bytes& b) { poke<std::uint64_t>(b, kHead + 8, 8); }},
      {"a size too large", false, [](Bytes& b) { poke<std::uint32_t>(b, kBody, ~0U); }},
      {"a size too small", false, [](Bytes& b) { poke<std::uint32_t>(b, kBody, 1); }},
      {"number 0", true, [](Bytes& b) { poke<std::uint64_t>(b, kBody, 0); }},
      {"number 2 first", true, [](Bytes& b) { poke<std::uint64_t>(b, kBody, 2); }},
      {"an index that is not", true, [](Bytes& b) { poke<std::uint32_t>(b, kBody + 8, 8); }},
      {"no pieces", true, [](Bytes& b) { poke<std::uint32_t>(b, kBody + 12, 0); }},
      {"many pieces", true, [](Bytes& b) { poke<std::uint32_t>(b, kBody + 12, ~0U); }},
      {"unknown bits", true, [](Bytes& b) { poke<std::uint64_t>(b, kBody + 16, 2); }},
      {"a part larger than its piece", true,
       [](Bytes& b) { poke<std::uint64_t>(b, kBody + 24, 4097); }},
      {"a part of 2^63", true, [](Bytes& b) { poke<std::uint64_t>(b, kBody + 24, 1ULL << 63); }},
      {"an offset beyond", true, [](Bytes& b) { poke<std::uint64_t>(b, kBody + 64, ~0ULL); }},
      {"a piece of no parts", true, [](Bytes& b) { poke<std::uint64_t>(b, kBody + 72, 0); }},
      {"a piece of many parts", true, [](Bytes& b) { poke<std::uint64_t>(b, kBody + 72, 1025); }},
      {"unknown rights", true, [](Bytes& b) { poke<std::uint32_t>(b, kBody + 60, 0xFF); }},
  };
  open_hostile();
  for (const auto& spoiled : cases) {
    SCOPED_TRACE(spoiled.what);
    auto bytes = batch_of(spoiled.large ? record_of(announcement()) : eager_of(Bytes(64)));
    spoiled.spoil(bytes);
    put(bytes);
    expect_broken(Code::kDataLoss);
    if (HasFailure()) return;
    HostileMail::TearDown();
    SetUp();
    open_hostile();
  }
}

TEST_F(HostileMail, AnIndexThatIsInUseIsNamed) {
  open_hostile();
  auto large = announcement();
  large.mappable = true;
  auto first = record_of(large);
  large.number = 2;
  auto second = record_of(large);
  first.insert(first.end(), second.begin(), second.end());
  put(batch_of(first, 2));
  bool maps = ba().capabilities().maps_peer;
  if (maps) {
    auto message = must(at_b().receive(soon()));  // whole, although what follows is broken
    EXPECT_EQ(message.bytes(), 4096U);
  }
  EXPECT_EQ(code_of(at_b().receive(soon())), Code::kDataLoss);
}

// A claim of 1 TiB is well-formed: it costs nothing, and only its sender is told.
TEST_F(HostileMail, AClaimOfOneTebibyteIsRefused) {
  open_hostile();
  auto claim = announcement(kTiB);
  claim.index = 5;
  claim.pieces[0].region.length = 2 * kTiB;
  auto records = record_of(claim);
  auto small = eager_of(stamped_bytes(64, 9));
  records.insert(records.end(), small.begin(), small.end());
  put(batch_of(records, 2));
  expect_next(at_b(), 64, 9);
  EXPECT_EQ(answer(5).state, MailWord::State::kRefused);
  EXPECT_EQ(answer(5).code, Code::kOutOfRange);
  EXPECT_EQ(at_b().stats().refused, 1U);
  EXPECT_EQ(room_b().bytes_in_use(), 0U);
}

// Larger than what was granted: the fabric refuses the read, and nothing of the peer's is believed.
TEST_F(HostileMail, AnAnnouncementOfForeignMemoryBreaksTheMailbox) {
  open_hostile();
  auto claim = announcement(1 << 20);
  claim.pieces[0].region.length = 1 << 20;
  claim.mappable = true;
  put(batch_of(record_of(claim)));
  auto broken = at_b().receive(soon());
  EXPECT_FALSE(broken);
  EXPECT_FALSE(at_b().receive(soon()));
  // Where the refusal does not break the lane, it has a name.
  if (ba().alive()) {
    EXPECT_EQ(code_of(broken), Code::kDataLoss);
  }
  EXPECT_EQ(room_b().bytes_in_use(), 0U);
}

TEST_F(HostileMail, AnswersThatCannotBeAreNamed) {
  for (std::uint64_t forged : {MailWord{2, MailWord::State::kDone}.to_u64(), std::uint64_t{1} << 16,
                               std::uint64_t{1} << 16 | 4, std::uint64_t{1} << 16 | 0xFF03}) {
    open_hostile();
    Bytes large(1 << 20);
    auto sending = at_b().send(large, soon());
    must(ab().write_flagged({}, hello_.words, hello_.words, forged, {.deadline = soon()}));
    EXPECT_EQ(code_of(sending.wait()), Code::kDataLoss) << forged;
    HostileMail::TearDown();
    SetUp();
  }
  open();
}

// Flags and acknowledgements of slots, which tensors have too: the errors are about messages.
TEST_F(HostileMail, ForgedFlagsAreNamedAsThoseOfMessages) {
  auto expect_named = [](const Error& error) {
    EXPECT_EQ(error.code(), Code::kDataLoss);
    EXPECT_NE(error.message().find("message batch 7"), std::string::npos) << error.message();
    EXPECT_EQ(error.message().find("tensor"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("open the mailbox anew"), std::string::npos) << error.message();
  };
  open_hostile();
  auto slots = hello_.landing;
  must(
      ab().write_flagged({}, slots, {slots, Layout::kLine + hello_.body}, 7, {.deadline = soon()}));
  expect_named(at_b().receive(soon()).error());
  HostileMail::TearDown();
  SetUp();
  open_hostile();
  const auto* greeting = landing_.body_of(0).data() - Layout::kLine;
  auto words = must(RemoteRegion::from_wire({greeting, RemoteRegion::kWireBytes}));
  must(ab().write_flagged({}, words, words, 7, {.deadline = soon()}));
  expect_named(at_b().send_and_wait(Bytes(10), soon()).error());
}

// The end of a mailbox is one word, which a peer may store at any time: only it loses by that.
TEST_F(HostileMail, APeerThatClosesAndGoesOnIsNotHeard) {
  open_hostile();
  put(batch_of(eager_of(stamped_bytes(64, 1))));
  must(ab().write_flagged({}, hello_.words, {hello_.words, 16}, ~std::uint64_t{0},
                          {.deadline = soon()}));
  put(batch_of(eager_of(stamped_bytes(64, 2))));
  expect_next(at_b(), 64, 1);
  auto next = at_b().receive(soon());
  if (next) next = at_b().receive(soon());
  EXPECT_EQ(code_of(next), Code::kUnavailable);
}

TEST_F(HostileMail, ARefusalIsPassedOn) {
  open_hostile();
  Bytes large(1 << 20);
  auto sending = at_b().send(large, soon());
  auto refusal = MailWord{1, MailWord::State::kRefused, Code::kPermissionDenied}.to_u64();
  must(ab().write_flagged({}, hello_.words, hello_.words, refusal, {.deadline = soon()}));
  EXPECT_EQ(code_of(sending.wait()), Code::kPermissionDenied);
  must(at_b().send_and_wait(Bytes(10), soon()));
}

// What the peer says that it has costs this end nothing.
TEST_F(HostileMail, AClaimOfManyLargeSlotsCostsNoMemory) {
  open();
  open_rooms();
  auto mine = hello(must(Layout::of(1024, 8 << 20)));
  auto before = b().stats().memory.in_use;
  must(ab().send(mine.to_wire()));
  std::thread other([&] {
    try {
      greet();
    } catch (const std::exception&) {  // where the path maps it, the lie is seen at once
    }
  });
  auto opened = Mailbox::open(room_b(), b(), ba(), {}, in(2s));
  other.join();
  EXPECT_LE(b().stats().memory.in_use - before, std::size_t{4} << 20);
}

TEST_F(HostileMail, AHelloThatMeansNothingIsRefused) {
  open();
  open_rooms();
  Bytes nonsense(MailHello::kWireBytes);
  must(ab().send(nonsense));
  EXPECT_EQ(code_of(Mailbox::open(room_b(), b(), ba(), {}, soon())), Code::kInvalidArgument);
  EXPECT_EQ(code_of(Mailbox::open(room_b(), b(), ba(), {}, in(10ms))), Code::kDeadlineExceeded);
  EXPECT_EQ(code_of(Mailbox::open(room_b(), b(), ba(), {.slot_bytes = 100}, soon())),
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace ferry::contract
