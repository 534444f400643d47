#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "ferry/fabric/provider_internal.h"
#include "ferry/fabric/shm/stream_internal.h"

namespace ferry::fabric::shm {
namespace {

class NoLane final : public Lane {
 public:
  explicit NoLane(Loop& loop) : Lane(loop) {}
  Transfer post(Request&) override { return Transfer(); }
  Result<std::size_t> take_message(std::span<std::byte>) override { return std::size_t{0}; }
  bool has_message() const override { return false; }
  void close(const Error&) override {}
  const Capabilities& capabilities() const override { return none_; }
  bool up() const override { return true; }

 private:
  Capabilities none_;
};

// A sender and a server over one mapping: two would hide from the thread sanitizer that they meet.
//
//   first:  sender --stream-->  second: server
//                  <--replies--
class Streams : public ::testing::Test {
 protected:
  static constexpr std::size_t kRing = 256 * 1024;

  std::span<std::byte> stream(const Mapping& view) { return view.bytes().subspan(4096, kRing); }
  std::span<std::byte> replies(const Mapping& view) {
    return view.bytes().subspan(4096 + kRing, kRing);
  }
  static std::atomic<std::uint64_t>& done(const Mapping& view) {
    return *reinterpret_cast<std::atomic<std::uint64_t>*>(view.data());
  }

  RemoteRegion grant(std::span<std::byte> memory) {
    GrantTable::Grant wanted;
    wanted.address = reinterpret_cast<std::uintptr_t>(memory.data());
    wanted.length = memory.size();
    wanted.rights = Rights::kAll;
    auto made = *grants_->add(wanted);
    return {made.key, made.address, made.length, made.epoch, made.rights};
  }

  Operation* post(Verb verb, std::span<std::byte> local, const RemoteRegion& remote,
                  Deadline deadline = Deadline::after(std::chrono::seconds(20))) {
    Request request;
    request.verb = verb;
    request.local = local.data();
    request.length = local.size();
    request.remote = remote;
    request.deadline = deadline;
    request.callback = [this](const Status& status) {
      outcomes_.push_back(status ? Code::kOk : status.error().code());
    };
    Operation* op = operations_.make(request, lane_.loop());
    EXPECT_TRUE(sender_.add(op, request));
    // Only the outcome is looked at here.
    transfers_.push_back(Transfer::pending(op));
    return op;
  }

  void put_raw(const void* record, std::size_t size) {
    auto room = *raw_.reserve(size);
    ASSERT_EQ(room.size(), size);
    std::memcpy(room.data(), record, size);
    raw_.commit();
  }

  Fd fd_ = *sealed_memfd("stream-test", 4096 + 2 * kRing);
  Mapping first_ = *Mapping::shared(fd_.get(), 4096 + 2 * kRing);
  Mapping& second_ = first_;
  std::unique_ptr<GrantTable> grants_ = *GrantTable::create();
  std::unique_ptr<Loop> loop_ = *Loop::open("test", Nanos(0));
  NoLane lane_{*loop_};
  OperationPool operations_;
  std::vector<Code> outcomes_;
  StreamSender sender_{*memory::RingWriter::open(stream(first_)),
                       *memory::RingReader::open(replies(first_)), done(first_)};
  StreamServer server_{*memory::RingReader::open(stream(second_)),
                       *memory::RingWriter::open(replies(second_)), done(second_), *grants_, 1};
  memory::RingWriter raw_ = *memory::RingWriter::open(stream(first_));
  std::vector<Transfer> transfers_;
};

TEST_F(Streams, WritesAndReadsWithBothEndsAtWork) {
  std::vector<std::byte> target(600'000);
  std::vector<std::byte> source(target.size());
  std::vector<std::byte> back(target.size());
  auto remote = grant(target);
  std::atomic<bool> stop{false};
  std::thread server([&] {
    while (!stop.load()) ASSERT_TRUE(server_.progress());
  });
  for (int round = 1; round <= 20; ++round) {
    std::fill(source.begin(), source.end(), static_cast<std::byte>(round));
    post(Verb::kWrite, source, remote);
    post(Verb::kRead, back, remote);
    while (sender_.busy()) ASSERT_TRUE(sender_.progress());
    ASSERT_EQ(back, source);
  }
  stop.store(true);
  server.join();
  EXPECT_EQ(outcomes_, std::vector<Code>(40, Code::kOk));
}

TEST_F(Streams, WhatIsGivenUpHalfWayLeavesTheStreamInOrder) {
  std::vector<std::byte> target(600'000);
  std::vector<std::byte> source(target.size(), std::byte{1});
  auto remote = grant(target);
  post(Verb::kWrite, source, remote, Deadline::at_ns(1));  // does not fit into the ring at once
  post(Verb::kWrite, source, remote, Deadline::at_ns(1));  // not even begun
  ASSERT_TRUE(sender_.pump());
  sender_.expire(2);
  EXPECT_EQ(outcomes_, std::vector<Code>(2, Code::kDeadlineExceeded));
  std::vector<std::byte> small(100, std::byte{2});
  post(Verb::kWrite, small, remote);
  for (int i = 0; i < 100 && sender_.busy(); ++i) {
    ASSERT_TRUE(server_.progress());
    ASSERT_TRUE(sender_.progress());
  }
  EXPECT_FALSE(sender_.busy());
  EXPECT_EQ(server_.served(), sender_.issued());
  EXPECT_EQ(outcomes_.back(), Code::kOk);
  EXPECT_EQ(target[99], std::byte{2});
  EXPECT_EQ(target[599'999], std::byte{0});
}

TEST_F(Streams, CloseEndsEverythingAndRefusesMore) {
  std::vector<std::byte> target(600'000);
  auto remote = grant(target);
  post(Verb::kWrite, target, remote);
  post(Verb::kRead, target, remote);
  ASSERT_TRUE(sender_.pump());
  sender_.close(fail(Code::kUnavailable, "gone").value());
  EXPECT_EQ(outcomes_, std::vector<Code>(2, Code::kUnavailable));
}

TEST_F(Streams, RefusalsNameTheCause) {
  std::vector<std::byte> target(64);
  auto remote = grant(target);
  ASSERT_TRUE(grants_->remove(remote.key));
  std::vector<std::byte> source(64);
  post(Verb::kWrite, source, remote);
  remote.key ^= std::uint64_t{1} << 50;
  post(Verb::kRead, source, remote);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(sender_.progress());
    ASSERT_TRUE(server_.progress());
  }
  EXPECT_EQ(outcomes_, (std::vector<Code>{Code::kFailedPrecondition, Code::kFailedPrecondition}));
}

TEST_F(Streams, AServerThatClaimsTooMuchIsFoundOut) {
  std::vector<std::byte> target(64);
  auto remote = grant(target);
  post(Verb::kWrite, target, remote);
  ASSERT_TRUE(sender_.pump());
  done(second_).store(7);
  auto progress = sender_.progress();
  ASSERT_FALSE(progress);
  EXPECT_EQ(progress.error().code(), Code::kDataLoss);
  sender_.close(progress.error());
}

TEST_F(Streams, AServerThatSendsMoreThanWasAskedForIsFoundOut) {
  std::vector<std::byte> target(64);
  post(Verb::kRead, target, grant(target));
  ASSERT_TRUE(sender_.pump());
  auto writer = *memory::RingWriter::open(replies(second_));
  std::vector<std::byte> record(sizeof(RecordHeader) + 65);
  RecordHeader header;
  header.kind = RecordHeader::Kind::kData;
  header.number = 1;
  std::memcpy(record.data(), &header, sizeof header);
  auto room = *writer.reserve(record.size());
  std::memcpy(room.data(), record.data(), record.size());
  writer.commit();
  EXPECT_FALSE(sender_.progress());
  sender_.close(fail(Code::kDataLoss, "hostile").value());
}

TEST_F(Streams, RecordsOutOfTurnEndTheStream) {
  RecordHeader data;
  data.kind = RecordHeader::Kind::kData;
  put_raw(&data, sizeof data);
  EXPECT_FALSE(server_.progress());
}

TEST_F(Streams, ARequestThatGoesBackEndsTheStream) {
  RequestRecord request;
  request.header.kind = RecordHeader::Kind::kRequest;
  request.header.number = 0;
  put_raw(&request, sizeof request);
  EXPECT_FALSE(server_.progress());
}

TEST_F(Streams, AnUnknownVerbEndsTheStream) {
  RequestRecord request;
  request.header.kind = RecordHeader::Kind::kRequest;
  request.header.number = 1;
  request.header.verb = 9;
  put_raw(&request, sizeof request);
  EXPECT_FALSE(server_.progress());
}

}  // namespace
}  // namespace ferry::fabric::shm
