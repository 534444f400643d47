#include "ferry/mail/tuning.h"

#include <gtest/gtest.h>

#include <random>

namespace ferry::mail {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kKi = 1024;
const std::vector<std::uint64_t> kSizes = {kKi,      2 * kKi,  4 * kKi, 8 * kKi,
                                           16 * kKi, 32 * kKi, 64 * kKi};

// fixed + per_byte * size
Curve line(const char* name, double fixed, double per_byte) {
  Curve curve{name, {}, 0};
  for (auto size : kSizes)
    curve.points.push_back({size, fixed + per_byte * static_cast<double>(size)});
  return curve;
}

TEST(TuningChoice, AThresholdIsWhereTheLinesCross) {
  // Equal at 20,000 bytes: 16 KiB is the last size at which the first is better.
  auto eager = line("eager", 1000, 0.1);
  auto announced = line("announced", 3000, 0);
  EXPECT_EQ(choose_threshold(eager, announced, kKi), 16 * kKi);
  EXPECT_EQ(choose_threshold(eager, line("announced", 100, 0), 8 * kKi), 0U);
  EXPECT_EQ(choose_threshold(eager, line("announced", 1e9, 0), 8 * kKi), 64 * kKi);
}

TEST(TuningChoice, TheUsualStaysWhereNothingIsGained) {
  auto eager = line("eager", 1000, 0.1);
  auto nearly = line("announced", 1002, 0.1);
  EXPECT_EQ(choose_threshold(eager, nearly, 8 * kKi), 8 * kKi);
  EXPECT_EQ(choose_threshold({}, {}, 8 * kKi), 8 * kKi);
}

TEST(TuningChoice, OneOutlierAwayFromTheCrossingDoesNotMoveAThreshold) {
  auto announced = line("announced", 3000, 0);
  for (std::size_t bad = 0; bad < 3; ++bad) {
    auto eager = line("eager", 1000, 0.1);
    eager.points[bad].ns = 3500;  // as if it were beyond the crossing
    EXPECT_EQ(choose_threshold(eager, announced, kKi), 16 * kKi) << bad;
  }
}

TEST(TuningChoice, AGainBelowTheNoiseMeansNothing) {
  auto eager = line("eager", 1000, 0.1);
  auto announced = line("announced", 3000, 0);
  EXPECT_EQ(choose_threshold(eager, announced, 8 * kKi), 16 * kKi);
  eager.noise = 0.2;
  EXPECT_EQ(choose_threshold(eager, announced, 8 * kKi), 8 * kKi);
  EXPECT_EQ(choose_threshold(eager, announced, 0), 16 * kKi);  // this is more than noise
  Curve chunk{"chunk", {{1, 110}, {2, 100}}, 0.05};
  EXPECT_EQ(choose_value(chunk, 1), 2U);
  chunk.noise = 0.15;
  EXPECT_EQ(choose_value(chunk, 1), 1U);
}

TEST(TuningChoice, NoiseCostsLittle) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(1, 0.1);
  const auto eager = line("eager", 1000, 0.1);
  const auto announced = line("announced", 3000, 0.01);
  for (int run = 0; run < 1000; ++run) {
    auto first = eager;
    auto second = announced;
    for (auto& point : first.points) point.ns *= std::max(noise(random), 0.5);
    for (auto& point : second.points) point.ns *= std::max(noise(random), 0.5);
    auto chosen = choose_threshold(first, second, 8 * kKi);
    // The lines cross at 22 KB: one step beside the best at most.
    EXPECT_GE(chosen, 8 * kKi);
    EXPECT_LE(chosen, 32 * kKi);
  }
}

TEST(TuningChoice, AValueIsTheBestUnlessTheUsualIsAsGood) {
  Curve curve{"chunk", {{1, 300}, {2, 200}, {4, 100}, {8, 102}}, 0};
  EXPECT_EQ(choose_value(curve, 1), 4U);
  EXPECT_EQ(choose_value(curve, 8), 8U);
  EXPECT_EQ(choose_value(curve, 16), 4U);
  EXPECT_EQ(choose_value({}, 16), 16U);
}

TEST(TuningChoice, ASpinIsAWakeUpLongOrWhatARoundNeeds) {
  Curve spin{"spin", {{0, 30'900}, {10'000, 520}, {25'000, 502}, {50'000, 500}}, 0};
  auto asleep = [](double ns) { return Curve{"asleep", {{0, ns}}, 0}; };
  EXPECT_EQ(choose_spin(spin, asleep(40'500), 1us), 40us);
  EXPECT_EQ(choose_spin(spin, asleep(600), 1us), 10us);
  EXPECT_EQ(choose_spin(spin, asleep(100), 1us), 10us);
  EXPECT_EQ(choose_spin(spin, asleep(1e9), 1us), 200us);
  EXPECT_EQ(choose_spin({"spin", {{0, 500}}, 0}, asleep(100), 1us), 5us);
  EXPECT_EQ(choose_spin({}, {}, 1us), 1us);
  EXPECT_EQ(choose_tuning({}, {spin, asleep(40'500)}).spin, 40us);
  EXPECT_EQ(choose_tuning({}, {spin}), Tuning());
}

TEST(TuningChoice, WhateverTheCurvesTheValuesAreWithinBounds) {
  std::mt19937_64 random(2);
  std::uniform_real_distribution<double> time(1, 1e9);
  using Names = CurveNames;
  for (int run = 0; run < 200; ++run) {
    std::vector<Curve> curves;
    for (const auto* name : {Names::kEager, Names::kAnnounced, Names::kCopied, Names::kRegistered,
                             Names::kChunk, Names::kInFlight, Names::kSpin, Names::kAsleep}) {
      curves.push_back({name, {}, 0});
      bool counts = name == std::string_view(Names::kInFlight);
      bool spins = name == std::string_view(Names::kSpin);
      for (std::uint64_t at : counts  ? std::vector<std::uint64_t>{1, 2, 4, 8}
                              : spins ? std::vector<std::uint64_t>{0, 5000, 200'000}
                                      : std::vector<std::uint64_t>{4 * kKi, 64 * kKi, 256 * kKi})
        curves.back().points.push_back({at, time(random)});
    }
    EXPECT_TRUE(check_tuning(choose_tuning({}, curves)));
  }
}

TEST(TuningBounds, EachValueHasThem) {
  EXPECT_TRUE(check_tuning({}));
  for (const auto* provider : {"shm", "tcp", "verbs", "fake", "another"})
    EXPECT_TRUE(check_tuning(default_tuning(provider))) << provider;
  EXPECT_FALSE(check_tuning({.eager_threshold = 1 << 30}));
  EXPECT_FALSE(check_tuning({.copy_up_to = 1 << 30}));
  EXPECT_FALSE(check_tuning({.chunk_bytes = 0}));
  EXPECT_FALSE(check_tuning({.chunk_bytes = 1 << 30}));
  EXPECT_FALSE(check_tuning({.chunks_in_flight = 0}));
  EXPECT_FALSE(check_tuning({.chunks_in_flight = 1000}));
  EXPECT_FALSE(check_tuning({.spin = 1s}));
  EXPECT_FALSE(check_tuning({.spin = -1ns}));
}

}  // namespace
}  // namespace ferry::mail
