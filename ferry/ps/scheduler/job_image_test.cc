#include <gtest/gtest.h>

#include <functional>

#include "ferry/ps/scheduler/job_image_internal.h"
#include "ferry/ps/scheduler/simulation_internal.h"
#include "ferry/ps/wire/protocol_version_internal.h"

namespace ferry::ps {
namespace {

JobImage example_image() {
  JobImage image;
  image.endpoint = "127.0.0.1:7000";
  image.last_tensor = 4;
  image.last_attempt = 2;
  image.dead = 1;
  image.left = 1;
  image.last_generation = 3;
  image.admission = AdmissionRecord{1, 8, 2};
  image.view.number = 5;
  image.view.gone = {1};
  image.departure = DepartureRecord{0, true, true, 7, 2, 8};
  for (std::uint32_t index = 0; index < 2; ++index)
    image.servers.push_back({simulation::place_of(index), index, index == 0});
  image.workers.resize(3);
  image.workers[1].state = WorkerState::kThere;
  image.workers[1].host = "host";
  image.workers[2].state = WorkerState::kOut;
  auto info = simulation::tensor_of("w");
  info.id = 4;
  info.block_bytes = 4096;
  info.runs = {{3, 0, 4000}};
  image.tensors.push_back({info, false, 1});
  return image;
}

JobOptions example_job() {
  JobOptions job;
  job.servers = 2;
  job.workers = 3;
  job.replicas = 2;
  return job;
}

TEST(JobImage, IsReadAsItWasWritten) {
  const auto bytes = example_image().encode(example_job());
  const auto image = JobImage::decode(bytes, example_job());
  ASSERT_TRUE(image && *image);
  EXPECT_EQ((*image)->encode(example_job()), bytes);
  EXPECT_EQ((*image)->departure->through, 7U);
  EXPECT_EQ((*image)->tensors.front().creator, 1U);
}

TEST(JobImage, HowLongMembersWaitIsNoPartOfAJob) {
  const auto bytes = example_image().encode(example_job());
  auto job = example_job();
  job.scheduler_away_ms = 5000;
  EXPECT_TRUE(JobImage::decode(bytes, job));
}

TEST(JobImage, OfAJobThatIsOverMakesRoom) {
  auto image = example_image();
  image.phase = JobImage::Phase::kOver;
  const auto decoded = JobImage::decode(image.encode(example_job()), example_job());
  ASSERT_TRUE(decoded);
  EXPECT_FALSE(*decoded);
}

TEST(JobImage, WhatCannotBeGoneOnWithIsNamed) {
  const auto whole = example_image().encode(example_job());
  auto version = whole;
  version[0] = std::byte{9};
  EXPECT_EQ(JobImage::decode(version, example_job()).error().code(), Code::kFailedPrecondition);
  // Written by a release whose members named no version of the protocol: none of them would be
  // taken back, and it can still be gone on with by the scheduler that wrote it.
  version[0] = std::byte{3};
  const auto before = JobImage::decode(version, example_job());
  ASSERT_FALSE(before);
  EXPECT_EQ(before.error().code(), Code::kFailedPrecondition);
  EXPECT_NE(before.error().message().find("start the one that wrote it"), std::string::npos);
  auto failed = example_image();
  failed.phase = JobImage::Phase::kFailed;
  failed.failure = "a server is gone";
  const auto why = JobImage::decode(failed.encode(example_job()), example_job());
  EXPECT_EQ(why.error().code(), Code::kAborted);
  EXPECT_NE(why.error().message().find("a server is gone"), std::string::npos);
  auto other = example_job();
  other.workers = 4;
  EXPECT_EQ(JobImage::decode(whole, other).error().code(), Code::kFailedPrecondition);
}

TEST(JobImage, BrokenOnesAreRefused) {
  const auto refused = [](const JobImage& image) {
    return !JobImage::decode(image.encode(example_job()), example_job());
  };
  EXPECT_FALSE(refused(example_image()));
  auto image = example_image();
  image.servers.pop_back();
  EXPECT_TRUE(refused(image));
  image = example_image();
  image.workers[0].state = static_cast<WorkerState>(7);
  EXPECT_TRUE(refused(image));
  image = example_image();
  image.tensors.front().info.runs.front().shard = 4;
  EXPECT_TRUE(refused(image));
  image = example_image();
  image.departure->rank = 3;
  EXPECT_TRUE(refused(image));
  image = example_image();
  image.view.gone = {2};
  EXPECT_TRUE(refused(image));
  image = example_image();
  image.admission->rank = 3;  // none
  EXPECT_FALSE((*JobImage::decode(image.encode(example_job()), example_job()))->admission);
  // Cut short at any byte, or with one too many.
  auto bytes = example_image().encode(example_job());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(JobImage::decode(Bytes(bytes.begin(), bytes.begin() + static_cast<long>(size)),
                                  example_job()))
        << size;
  bytes.push_back({});
  EXPECT_FALSE(JobImage::decode(bytes, example_job()));
  // A count that cannot be.
  image = example_image();
  image.tensors.clear();
  bytes = image.encode(example_job());
  std::fill(bytes.end() - 4, bytes.end(), std::byte{0x7f});
  EXPECT_FALSE(JobImage::decode(bytes, example_job()));
}

TEST(DecodeRequest, ReadsEveryQuestionAndRefusesWhatIsNone) {
  struct Case {
    Ask what;
    std::function<void(bootstrap::Encoder&)> write;
    std::size_t kind;
    bool has_version = false;  // before what `write` writes
  };
  const auto nothing = [](bootstrap::Encoder& /*out*/) {};
  const auto text = [](bootstrap::Encoder& out) { out.string("x"); };
  const auto pair = [](bootstrap::Encoder& out) { out.u32(1).u64(2); };
  const Case cases[] = {
      {Ask::kJoinServer, [](auto& out) { put(out, simulation::place_of(1)); }, 0, true},
      {Ask::kServerReady, nothing, 1},
      {Ask::kJoinWorker, [](auto& out) { out.u32(1); }, 2, true},
      {Ask::kEnter, [](auto& out) { out.string("h").string("d").string(""); }, 3},
      {Ask::kNeighbours, nothing, 10},
      {Ask::kCaughtUp, [](auto& out) { out.u8(1); }, 4},
      {Ask::kInit,
       [](auto& out) {
         const auto info = simulation::tensor_of("w");
         out.string(info.name);
         put(out, info.spec);
         put(out, info.update);
       },
       5},
      {Ask::kFind, text, 6},
      {Ask::kThere, [](auto& out) { out.u32(1); }, 7},
      {Ask::kNames, nothing, 10},
      {Ask::kSnapshot, text, 8},
      {Ask::kBarrier, [](auto& out) { out.u64(1); }, 9},
      {Ask::kView, nothing, 10},
      {Ask::kMembers, nothing, 10},
      {Ask::kLeave, nothing, 11},
      {Ask::kBackServer, pair, 12, true},
      {Ask::kBackWorker, pair, 13, true},
  };
  for (const auto& each : cases) {
    Bytes body;
    bootstrap::Encoder out(body);
    if (each.has_version) put_protocol_version(out);
    each.write(out);
    bootstrap::Decoder in(body);
    const auto request = decode_request(each.what, in, 5);
    ASSERT_TRUE(request) << static_cast<int>(each.what);
    EXPECT_EQ(request->index(), each.kind) << static_cast<int>(each.what);
    if (body.empty()) continue;
    body.pop_back();
    bootstrap::Decoder cut(body);
    EXPECT_FALSE(decode_request(each.what, cut, 5)) << static_cast<int>(each.what);
  }
  bootstrap::Decoder none({});
  EXPECT_EQ(decode_request(Ask::kFreeze, none, 0).error().code(), Code::kUnimplemented);
}

}  // namespace
}  // namespace ferry::ps
