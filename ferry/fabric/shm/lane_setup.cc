#include "ferry/fabric/shm/lane_internal.h"

namespace ferry::fabric::shm {

namespace {

std::span<std::byte> part(const Mapping& segment, std::size_t at, std::size_t length) {
  return segment.bytes().subspan(at, length);
}

OneWay& way_of(const Mapping& segment, int way) {
  return reinterpret_cast<LaneWords*>(segment.data())->methods[way];
}

}  // namespace

ShmLane::Wires::Wires(std::shared_ptr<const Mapping> mapped, int way, std::uint32_t loop,
                      std::uint32_t index, const LaneShared& shared, Peer& peer,
                      const std::atomic<bool>& up, memory::RingWriter out, memory::RingReader in,
                      memory::RingWriter stream_out, memory::RingReader replies_in,
                      memory::RingReader stream_in, memory::RingWriter replies_out)
    : segment(std::move(mapped)),
      outward(way_of(*segment, way)),
      inward(way_of(*segment, 1 - way)),
      peer_loop(loop),
      peer_index(index),
      sender(stream_out, replies_in, outward.done),
      server(stream_in, replies_out, inward.done, *shared.context->grants, peer.number()),
      messages_out(out, outward.wants_room),
      messages_in(in, server),
      copies(*shared.context, shared.team, peer, loop, index, outward.job, inward.job, up) {}

ShmLane::ShmLane(std::shared_ptr<const LaneShared> shared, std::shared_ptr<Peer> peer,
                 ShmSource& source, int way)
    : Lane(source.loop()),
      shared_(std::move(shared)),
      peer_(std::move(peer)),
      source_(source),
      way_(way) {
  index_ = source_.add(this);
}

ShmLane::~ShmLane() {
  close(fail(Code::kCancelled, "the lane was destroyed").value());
  LockGuard<Mutex> guard(lock_);
  for (auto key : mapped_) peer_->let_go(key);
}

Status ShmLane::start(std::shared_ptr<const Mapping> segment, std::uint32_t peer_loop,
                      std::uint32_t peer_index) {
  LockGuard<Mutex> closing(close_lock_);
  if (closed_) return tl::unexpected<Error>(cause());
  if (wires_ != nullptr) return fail(Code::kAlreadyExists, "the lane has started already");
  if (peer_loop >= peer_->loops())
    return fail(Code::kInvalidArgument, "the peer's lane is on loop {} of {}", peer_loop,
                peer_->loops());
  auto ring = [&](std::size_t at, std::size_t size) { return part(*segment, at, size); };
  auto out = FERRY_TRY(memory::RingWriter::open(ring(message_ring_at(way_), kMessageRing)));
  auto in = FERRY_TRY(memory::RingReader::open(ring(message_ring_at(1 - way_), kMessageRing)));
  auto stream_out = FERRY_TRY(memory::RingWriter::open(ring(stream_ring_at(way_), kStreamRing)));
  auto replies_in = FERRY_TRY(memory::RingReader::open(ring(reply_ring_at(way_), kReplyRing)));
  auto stream_in = FERRY_TRY(memory::RingReader::open(ring(stream_ring_at(1 - way_), kStreamRing)));
  auto replies_out = FERRY_TRY(memory::RingWriter::open(ring(reply_ring_at(1 - way_), kReplyRing)));
  wires_ =
      std::make_unique<Wires>(std::move(segment), way_, peer_loop, peer_index, *shared_, *peer_,
                              up_, out, in, stream_out, replies_in, stream_in, replies_out);
  up_.store(true, std::memory_order_release);
  source_.activate(index_);  // the peer may have rung before we listened
  return {};
}

void ShmLane::close(const Error& cause) {
  LockGuard<Mutex> closing(close_lock_);
  if (closed_) return;
  closed_ = true;
  {
    LockGuard<Mutex> guard(lock_);
    cause_ = cause;
  }
  up_.store(false, std::memory_order_release);
  source_.remove(this);
  if (wires_ == nullptr) return;
  wires_->sender.close(cause);
  wires_->messages_out.close(cause);
  loop().notify();
}

}  // namespace ferry::fabric::shm
