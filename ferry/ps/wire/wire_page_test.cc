#include <gtest/gtest.h>

#include <bit>
#include <cctype>
#include <cstring>
#include <fstream>
#include <map>
#include <string>

#include "ferry/ps/server/image_internal.h"
#include "ferry/ps/wire/abort_cause_internal.h"
#include "ferry/ps/wire/layout_internal.h"
#include "ferry/ps/wire/messages_internal.h"

// docs/wire/ps.md has an example of each message and shared line: a block that begins with
// "```bytes NAME". These tests write the same values and compare the bytes with the page.

namespace ferry::ps {
namespace {

constexpr const char* kFence = "```bytes ";

// Hexadecimal digits of a line, up to two spaces, behind which the fields are named.
std::string digits_of(const std::string& line) {
  std::string digits;
  for (const char each : line.substr(0, line.find("  ")))
    if (each != ' ') digits += each;
  return digits;
}

std::map<std::string, std::string> examples_of_page() {
  std::map<std::string, std::string> examples;
  std::ifstream page(FERRY_WIRE_PAGE);
  std::string name;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with(kFence))
      name = line.substr(std::strlen(kFence));
    else if (line.starts_with("```"))
      name.clear();
    else if (!name.empty())
      examples[name] += digits_of(line);
  }
  return examples;
}

std::string hex_of(std::span<const std::byte> bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const auto each : bytes) {
    text += kDigits[std::to_integer<int>(each) / 16];
    text += kDigits[std::to_integer<int>(each) % 16];
  }
  return text;
}

template <typename T>
std::string put_hex(const T& value) {
  Bytes bytes;
  bootstrap::Encoder out(bytes);
  put(out, value);
  return hex_of(bytes);
}

template <typename T>
std::string line_hex(const T& line) {
  return hex_of(std::as_bytes(std::span(&line, 1)));
}

JobOptions example_job() {
  JobOptions job;
  job.servers = 2;
  job.workers = 3;
  job.consistency = Consistency::kSync;
  job.staleness = 4;
  job.mean = true;
  job.block_bytes = 65536;
  job.pool_blocks = 48;
  job.most_dead = 1;
  job.replicas = 2;
  job.start_with = 2;
  job.merge = true;
  job.scheduler_away_ms = 10000;
  return job;
}

TensorInfo example_tensor() {
  TensorInfo info;
  info.id = 1;
  info.name = "w";
  info.spec = {tensor::ElementType::kF32, tensor::Shape::of({5}).value()};
  info.update = {UpdateKind::kSum};
  info.block_bytes = 4096;
  info.runs = {{.shard = 3, .offset = 0, .bytes = 20}};
  return info;
}

ServerPlace example_server() { return {"a:1", "b:22", 2}; }

fabric::RemoteRegion example_region(std::uint64_t key) {
  return {.key = key,
          .address = 0x1000,
          .length = 0x2000,
          .epoch = 7,
          .rights = fabric::Rights::kReadWrite};
}

JobView example_view() {
  JobView view;
  view.number = 5;
  view.gone = {1};
  view.newcomers = {{.server = 1, .turn = 2, .place = example_server(), .since = 9}};
  view.coming = 1;
  return view;
}

ShardImage example_image() {
  ShardImage image;
  image.step = {.clock = 8,
                .attempt = 2,
                .later = {.attempt = 3, .step = 10},
                .members = {{.ended = 8}, {.ended = 7, .since = 5, .through = 7, .former = 4}}};
  image.parts.push_back({.tensor = 1, .image = {}});
  image.parts[0].image.time = 8;
  image.parts[0].image.updates = {8, 6};
  return image;
}

Entry example_entry() {
  return {.operation = Operation::kPush,
          .part = 1,
          .first = 2,
          .blocks = 3,
          .slot = Entry::kInPlace,
          .attempt = 4,
          .offset = 0x500,
          .bytes = 0x600,
          .step = 7,
          .count = 8,
          .number = 9};
}

Head example_head() {
  Head head;
  head.current = Head::pack(6, 2);
  head.stamps[0] = 4;
  head.stamps[1] = 5;
  head.stamps[2] = 6;
  return head;
}

Seat example_seat() {
  Seat seat;
  seat.held = {.begin = Seat::word_of(3, 10), .end = Seat::word_of(3, 12)};
  seat.copying = {.begin = Seat::word_of(3, 12), .end = Seat::looking_of(3)};
  return seat;
}

StopNotice example_stop() {
  return {.failed = true,
          .cause = {AbortCause::Kind::kBothCopiesLost, 1, 2},
          .text = "two servers are gone"};
}

std::string example_question() {
  Bytes bytes;
  bootstrap::Encoder(bytes).u64(1).u32(static_cast<std::uint32_t>(Ask::kFreeze)).u32(2);
  return hex_of(bytes);
}

std::map<std::string, std::string> examples_of_code() {
  return {{"Question", example_question()},
          {"Job", put_hex(example_job())},
          {"Tensor", put_hex(example_tensor())},
          {"Server", put_hex(example_server())},
          {"View", put_hex(example_view())},
          {"Welcome", put_hex(Welcome{1, example_job(), {example_server()}, 0x1122334455667788})},
          {"ShardPlace", put_hex(ShardPlace{example_region(1), example_region(2), 16})},
          {"PartPlace", put_hex(PartPlace{1, 2, example_region(3), example_region(4), 5})},
          {"Image", put_hex(example_image())},
          {"Entry", line_hex(example_entry())},
          {"Stop", put_hex(example_stop())},
          {"Words", line_hex(Words{1, 2, 3, 4, 5})},
          {"AbortedWords", line_hex(Words{1, 2, 3, example_stop().cause.to_word(), 5})},
          {"Head", line_hex(example_head())},
          {"Seat", line_hex(example_seat())}};
}

TEST(WirePageTest, EveryExampleHasTheDocumentedBytes) {
  const auto page = examples_of_page();
  const auto code = examples_of_code();
  for (const auto& [name, bytes] : code) {
    const auto found = page.find(name);
    ASSERT_NE(found, page.end()) << "the page has no example of " << name << ": " << bytes;
    EXPECT_EQ(found->second, bytes) << name;
  }
  for (const auto& [name, bytes] : page) EXPECT_TRUE(code.contains(name)) << name;
}

Bytes bytes_from(const std::string& hex) {
  Bytes bytes;
  for (std::size_t at = 0; at + 1 < hex.size(); at += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(hex.substr(at, 2), nullptr, 16)));
  return bytes;
}

// What is read from the documented bytes and written again is the same.
TEST(WirePageTest, TheDocumentedBytesAreRead) {
  auto page = examples_of_page();
  const auto reads = [&](const std::string& name, auto get) {
    const auto bytes = bytes_from(page[name]);
    bootstrap::Decoder in(bytes);
    const auto value = get(in);
    ASSERT_TRUE(value) << name << ": " << value.error().message();
    EXPECT_TRUE(in.finish(name)) << name;
    EXPECT_EQ(put_hex(*value), page[name]) << name;
  };
  const auto job = example_job();
  reads("Job", get_job);
  reads("Tensor", get_tensor);
  reads("Server", get_server);
  reads("Welcome", get_welcome);
  reads("ShardPlace", get_shard_place);
  reads("PartPlace", get_part_place);
  reads("View", [&](bootstrap::Decoder& in) { return get_view(in, job); });
  auto two = job;
  two.workers = 2;
  reads("Stop", [](bootstrap::Decoder& in) -> Result<StopNotice> { return get_stop(in); });
  reads("Image", [&](bootstrap::Decoder& in) { return get_shard_image(in, two); });
}

// The page gives each question a number, which never changes.
TEST(WirePageTest, QuestionsHaveTheDocumentedNumbers) {
  const std::map<std::string, Ask> names = {{"JoinServer", Ask::kJoinServer},
                                            {"JoinWorker", Ask::kJoinWorker},
                                            {"Init", Ask::kInit},
                                            {"Find", Ask::kFind},
                                            {"Barrier", Ask::kBarrier},
                                            {"Members", Ask::kMembers},
                                            {"Leave", Ask::kLeave},
                                            {"ServerReady", Ask::kServerReady},
                                            {"There", Ask::kThere},
                                            {"Snapshot", Ask::kSnapshot},
                                            {"Names", Ask::kNames},
                                            {"View", Ask::kView},
                                            {"Enter", Ask::kEnter},
                                            {"CaughtUp", Ask::kCaughtUp},
                                            {"BackServer", Ask::kBackServer},
                                            {"BackWorker", Ask::kBackWorker},
                                            {"Neighbours", Ask::kNeighbours},
                                            {"Create", Ask::kCreate},
                                            {"Drop", Ask::kDrop},
                                            {"Attach", Ask::kAttach},
                                            {"Open", Ask::kOpen},
                                            {"Grant", Ask::kGrant},
                                            {"Freeze", Ask::kFreeze},
                                            {"Depart", Ask::kDepart},
                                            {"Stop", Ask::kStop},
                                            {"Landing", Ask::kLanding},
                                            {"Save", Ask::kSave},
                                            {"Restore", Ask::kRestore},
                                            {"ApplyView", Ask::kApplyView},
                                            {"Hold", Ask::kHold},
                                            {"Admit", Ask::kAdmit},
                                            {"Image", Ask::kImage},
                                            {"CatchUp", Ask::kCatchUp},
                                            {"Known", Ask::kKnown}};
  std::ifstream page(FERRY_WIRE_PAGE);
  std::size_t found = 0;
  for (std::string line; std::getline(page, line);) {
    const auto bar = line.find(" | ", 2);
    const auto end = line.find(" | ", bar + 3);
    if (!line.starts_with("| ") || end == std::string::npos) continue;
    const auto name = names.find(line.substr(bar + 3, end - bar - 3));
    if (name == names.end() || std::isdigit(static_cast<unsigned char>(line[2])) == 0) continue;
    ++found;
    EXPECT_EQ(std::stoul(line.substr(2)), static_cast<std::uint32_t>(name->second)) << line;
  }
  EXPECT_EQ(found, names.size());
}

}  // namespace
}  // namespace ferry::ps
