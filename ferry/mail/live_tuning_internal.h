#pragma once

#include <atomic>

#include "ferry/mail/tuning.h"

namespace ferry::mail {

// The values of an open mailbox, which may be replaced while it is used. Every value stands for
// itself: who reads them meanwhile may find some of the old ones. Lock-free.
class LiveTuning {
 public:
  LiveTuning(const Tuning& tuning, TuningSource source) { replace(tuning, source); }
  void replace(const Tuning& tuning, TuningSource source) {
    eager_threshold_.store(tuning.eager_threshold, std::memory_order_relaxed);
    copy_up_to_.store(tuning.copy_up_to, std::memory_order_relaxed);
    chunk_bytes_.store(tuning.chunk_bytes, std::memory_order_relaxed);
    chunks_in_flight_.store(tuning.chunks_in_flight, std::memory_order_relaxed);
    spin_ns_.store(tuning.spin.count(), std::memory_order_relaxed);
    source_.store(source, std::memory_order_relaxed);
  }
  Tuning now() const {
    return {eager_threshold(), copy_up_to(), chunk_bytes(), chunks_in_flight(), spin()};
  }
  std::uint64_t eager_threshold() const { return eager_threshold_.load(std::memory_order_relaxed); }
  std::uint64_t copy_up_to() const { return copy_up_to_.load(std::memory_order_relaxed); }
  std::uint64_t chunk_bytes() const { return chunk_bytes_.load(std::memory_order_relaxed); }
  std::uint32_t chunks_in_flight() const {
    return chunks_in_flight_.load(std::memory_order_relaxed);
  }
  Nanos spin() const { return Nanos(spin_ns_.load(std::memory_order_relaxed)); }
  TuningSource source() const { return source_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> eager_threshold_;
  std::atomic<std::uint64_t> copy_up_to_;
  std::atomic<std::uint64_t> chunk_bytes_;
  std::atomic<std::uint32_t> chunks_in_flight_;
  std::atomic<std::int64_t> spin_ns_;
  std::atomic<TuningSource> source_;
};

}  // namespace ferry::mail
