#pragma once

#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "ferry/interop/c/boxes_internal.h"
#include "ferry/interop/c/tensors.h"
#include "ferry/transfer/edge.h"

namespace ferry::interop {

// What an arrival has a share in: a receiver or a reader, and the channel below it.
struct EdgeBox {
  explicit EdgeBox(std::shared_ptr<ChannelBox> of) : channel(std::move(of)) {}
  std::shared_ptr<ChannelBox> channel;
  std::atomic<std::uint32_t> held{0};  // arrivals that were not let go of
};

inline nlohmann::json stats_json(const transfer::EdgeStats& stats) {
  return {{"tensors", stats.tensors}, {"in_place", stats.in_place},
          {"writes", stats.writes},   {"reads", stats.reads},
          {"copies", stats.copies},   {"registered", stats.registered}};
}

inline Result<transfer::Ticket> ticket_of(const ferry_ticket& ticket) {
  return transfer::Ticket::from_wire(std::as_bytes(std::span(ticket.bytes)));
}

inline ferry_ticket ticket_to_c(const transfer::Ticket& ticket) {
  const auto wire = ticket.to_wire();
  ferry_ticket plain;
  __builtin_memcpy(plain.bytes, wire.data(), wire.size());
  return plain;
}

}  // namespace ferry::interop

struct ferry_arrival : ferry::interop::OfProcess {
  ferry_arrival(std::shared_ptr<ferry::interop::EdgeBox> from, ferry::transfer::Arrival came)
      : edge(std::move(from)),
        arrival(std::move(came)),
        tensor(ferry::interop::tensor_to_c(arrival.tensor())),
        sequence(arrival.sequence()) {
    edge->held.fetch_add(1, std::memory_order_relaxed);
  }
  ferry_arrival(const ferry_arrival&) = delete;
  ferry_arrival& operator=(const ferry_arrival&) = delete;
  ~ferry_arrival() { (void)let_go(); }

  ferry::Status let_go() {
    if (!arrival) return {};
    auto status = arrival.release();
    edge->held.fetch_sub(1, std::memory_order_relaxed);
    return status;
  }

  std::shared_ptr<ferry::interop::EdgeBox> edge;
  ferry::transfer::Arrival arrival;
  ferry_tensor tensor;
  std::uint64_t sequence;
};
