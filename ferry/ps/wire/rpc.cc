#include <algorithm>
#include <chrono>

#include "ferry/base/waiting.h"
#include "ferry/ps/wire/rpc_internal.h"

namespace ferry::ps {
namespace {

using std::chrono::seconds;

constexpr seconds kAnswer{10};       // for a peer to take an answer
constexpr std::size_t kText = 4096;  // of an error

mail::MailboxOptions box_options() { return {.slots = 4}; }
mail::MailRoomOptions room_options() {
  return {.budget_bytes = std::uint64_t{16} << 20, .tuning = mail::TuningUse::kCached};
}

Bytes flat(const mail::Message& message) {
  Bytes bytes;
  for (const auto part : message.parts()) bytes.insert(bytes.end(), part.begin(), part.end());
  return bytes;
}

}  // namespace

fabric::Options control_options(const fabric::Options& data) {
  auto options = data;
  options.provider = "tcp";
  options.lanes_per_peer = 1;
  options.completion_queues = 1;
  options.arena_bytes = std::size_t{1} << 20;
  options.budget_bytes = 0;
  // The same address as for data, and a port of its own.
  if (const auto colon = options.listen.rfind(':'); colon != std::string::npos)
    options.listen = options.listen.substr(0, colon) + ":0";
  return options;
}

Result<std::unique_ptr<RpcClient>> RpcClient::connect(fabric::Device& device,
                                                      const std::string& endpoint,
                                                      Deadline deadline) {
  auto channel = FERRY_TRY(device.connect(endpoint, {.deadline = deadline}));
  std::unique_ptr<RpcClient> client(new RpcClient(std::move(channel)));
  client->room_.emplace(FERRY_TRY(mail::MailRoom::open(device, room_options())));
  client->box_.emplace(FERRY_TRY(
      mail::Mailbox::open(*client->room_, device, client->channel_, box_options(), deadline)));
  return client;
}

Result<std::optional<Result<Bytes>>> RpcClient::answer_to(std::uint64_t id,
                                                          const mail::Message& message) {
  const auto bytes = flat(message);
  bootstrap::Decoder in(bytes);
  const auto got = in.u64();
  const auto code = in.u8();
  const auto rest = in.raw(in.remaining());
  FERRY_TRY(in.finish("an answer"));
  if (got != id) return std::optional<Result<Bytes>>();
  if (code == 0) return std::optional<Result<Bytes>>(Bytes(rest.begin(), rest.end()));
  const std::string text(reinterpret_cast<const char*>(rest.data()), rest.size());
  return std::optional<Result<Bytes>>(fail(static_cast<Code>(code), "{}", text));
}

Result<Bytes> RpcClient::call(Ask what, const Bytes& body, Deadline deadline) {
  return FERRY_TRY(ask(what, body, deadline));
}

Result<mail::Message> RpcClient::receive(Deadline deadline, const Look& look) {
  if (!look) return box_->receive(deadline);
  for (;;) {
    auto message = box_->receive(std::min(deadline, Deadline::after(waiting::kAnswerSleep)));
    const bool none = !message && message.error().code() == Code::kDeadlineExceeded;
    if (!none || deadline.expired()) return message;
    FERRY_TRY(look());
  }
}

Result<Result<Bytes>> RpcClient::ask(Ask what, const Bytes& body, Deadline deadline,
                                     const Look& look) {
  LockGuard<Mutex> guard(lock_);
  const auto id = ++last_id_;
  Bytes question;
  bootstrap::Encoder(question).u64(id).u32(static_cast<std::uint32_t>(what)).raw(body);
  FERRY_TRY(box_->send_and_wait(question, deadline));
  for (;;) {
    const auto message = FERRY_TRY(receive(deadline, look));
    auto answer = FERRY_TRY(answer_to(id, message));
    if (answer) return *std::move(answer);
  }
}

Status RpcServer::open(const fabric::Options& options, Handler& handler,
                       std::unique_ptr<RpcServer>& server) {
  auto device = FERRY_TRY(fabric::Device::open(options));
  server.reset(new RpcServer(std::move(device), handler));
  server->hub_ =
      FERRY_TRY(mail::MailHub::open(server->device_, room_options(), box_options(), *server));
  return {};
}

void RpcServer::gone(std::uint64_t peer) {
  behind_.erase(peer);
  if (const auto found = askers_.find(peer); found != askers_.end()) {
    // With the mailbox they have ended: nobody looks at their bytes any more.
    for (auto& sending : found->second.sendings) (void)sending.wait();
    askers_.erase(found);
  }
  handler_.gone(peer);
}

void RpcServer::tick() {
  std::erase_if(behind_, [&](std::uint64_t peer) {
    auto& asker = askers_.at(peer);
    forget_sent(asker);
    return !asker.is_behind();
  });
  handler_.tick();
}

void RpcServer::arrived(const std::shared_ptr<Peer>& from, mail::Message message) {
  const auto bytes = flat(message);
  (void)message.release();
  auto& asker = askers_[from->id];
  asker.peer = from;
  bootstrap::Decoder in(bytes);
  Question question{.peer = from->id, .id = in.u64()};
  question.what = static_cast<Ask>(in.u32());
  if (++asker.waiting > kMostWaiting)
    return reply(question, fail(Code::kResourceExhausted,
                                "{} questions of this peer wait for an answer", kMostWaiting));
  if (!in.ok()) return reply(question, fail(Code::kInvalidArgument, "a question that is none"));
  handle(question, in);
}

void RpcServer::handle(const Question& question, bootstrap::Decoder& body) {
  auto answer = handler_.asked(question, body);
  if (!answer) return reply(question, tl::unexpected<Error>(answer.error()));
  if (*answer) reply(question, **answer);
}

void RpcServer::reply(const Question& question, const Result<Bytes>& answer) {
  const auto found = askers_.find(question.peer);
  if (found == askers_.end()) return;
  auto& asker = found->second;
  asker.waiting -= asker.waiting == 0 ? 0 : 1;
  if (const auto well = handler_.about_to_answer(); !well && answer)
    return send(asker, question, tl::unexpected<Error>(well.error()));
  send(asker, question, answer);
}

void RpcServer::send(Asker& asker, const Question& question, const Result<Bytes>& answer) {
  Bytes bytes;
  bootstrap::Encoder out(bytes);
  out.u64(question.id).u8(answer ? 0 : static_cast<std::uint8_t>(answer.error().code()));
  if (answer)
    out.raw(*answer);
  else
    out.raw(std::as_bytes(std::span(answer.error().message()))
                .first(std::min(answer.error().message().size(), kText)));
  forget_sent(asker);
  // A peer that does not take its answers is found to be gone by the next look at it, or asks
  // again.
  if (asker.sendings.size() >= kMostWaiting) return;
  const auto& kept = asker.answers.emplace_back(std::move(bytes));
  asker.sendings.push_back(asker.peer->box->send(kept, Deadline::after(kAnswer)));
  forget_sent(asker);
  if (asker.is_behind()) behind_.insert(question.peer);
}

// All have as much time, so the first one ends first, or is too late first.
void RpcServer::forget_sent(Asker& asker) {
  while (asker.is_behind() && asker.sendings.front().poll()) {
    asker.sendings.pop_front();
    asker.answers.pop_front();
  }
}

}  // namespace ferry::ps
