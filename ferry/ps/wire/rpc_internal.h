#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "ferry/base/spin.h"
#include "ferry/base/thread_annotations.h"
#include "ferry/fabric/device.h"
#include "ferry/mail/mail_hub.h"
#include "ferry/ps/wire/messages_internal.h"

namespace ferry::ps {

// The device for control messages: tcp, little memory, the rest as for data.
fabric::Options control_options(const fabric::Options& data);
// How long a device is to wait for what others do in `span`.
inline Nanos scaled(Nanos span, const fabric::Options& device) {
  return std::chrono::duration_cast<Nanos>(span * device.patience);
}

// Asks one peer. Thread-safe: one question at a time.
class RpcClient {
 public:
  static Result<std::unique_ptr<RpcClient>> connect(fabric::Device& device,
                                                    const std::string& endpoint, Deadline deadline);
  // What the peer answered, or the error it named. kUnavailable if it is gone. An answer that comes
  // after the deadline is thrown away.
  Result<Bytes> call(Ask what, const Bytes& body, Deadline deadline);
  // The same, and tells what the peer answered from a failure to ask it. `look`, if there is one,
  // is called from time to time while the peer is silent; what it fails with ends the question,
  // which may have arrived or not. It must not use this client.
  using Look = std::function<Status()>;
  Result<Result<Bytes>> ask(Ask what, const Bytes& body, Deadline deadline, const Look& look = {});
  bool alive() const { return channel_.alive(); }
  // The peer is gone or was given up, and does not come back on this connection.
  bool lost() const { return channel_.peer_state() == fabric::PeerState::kLost; }

 private:
  explicit RpcClient(fabric::Channel channel) : channel_(std::move(channel)) {}
  // Waits for a message, and calls `look` from time to time, if there is one.
  Result<mail::Message> receive(Deadline deadline, const Look& look);
  // What the message answers to the question of this id; none: it answers an earlier one.
  static Result<std::optional<Result<Bytes>>> answer_to(std::uint64_t id,
                                                        const mail::Message& message);

  fabric::Channel channel_;
  std::optional<mail::MailRoom> room_;
  std::optional<mail::Mailbox> box_;
  Mutex lock_;
  std::uint64_t last_id_ = 0;
};

// Answers many peers on one thread. A question may be answered later, with reply(), by the same
// thread. One peer can take neither its memory nor its time: what waits of one is bounded, and
// nobody waits for a peer that does not take its answers.
class RpcServer final : mail::MailHub::Handler {
 public:
  // Questions of one peer that are not answered yet; clients that give up leave some behind.
  // Of the answers that a peer has yet to take there are no more, either: later ones are lost.
  static constexpr std::size_t kMostWaiting = 1024;
  // Which peer, and which of its questions.
  struct Question {
    std::uint64_t peer = 0;
    std::uint64_t id = 0;
    Ask what{};
  };
  class Handler {
   public:
    // An answer, or nothing: it comes later.
    virtual Result<std::optional<Bytes>> asked(const Question& question,
                                               bootstrap::Decoder& body) = 0;
    virtual void gone(std::uint64_t peer) = 0;
    // Before any answer goes out; what goes wrong here is the answer.
    virtual Status about_to_answer() { return {}; }
    virtual void tick() {}  // every few milliseconds, and after each question

   protected:
    ~Handler() = default;
  };

  // Into `server` before the handler is called for the first time.
  static Status open(const fabric::Options& options, Handler& handler,
                     std::unique_ptr<RpcServer>& server);

  std::string endpoint() const { return device_.endpoint(); }
  // Asks the handler, now or again. This and reply() only from the handler's calls.
  void handle(const Question& question, bootstrap::Decoder& body);
  void reply(const Question& question, const Result<Bytes>& answer);

 private:
  using Peer = mail::MailHub::Peer;
  // Between calls: `answers` has the bytes of `sendings`, in this order, and outlives the mailbox,
  // which may look at them until their sending has ended.
  struct Asker {
    bool is_behind() const { return !sendings.empty(); }

    std::size_t waiting = 0;  // questions
    std::deque<Bytes> answers;
    std::shared_ptr<Peer> peer;
    std::deque<mail::Sending> sendings;  // to the peer, not longer than kMostWaiting
  };
  RpcServer(fabric::Device device, Handler& handler)
      : device_(std::move(device)), handler_(handler) {}
  void arrived(const std::shared_ptr<Peer>& from, mail::Message message) override;
  void gone(std::uint64_t peer) override;
  void tick() override;
  void send(Asker& asker, const Question& question, const Result<Bytes>& answer);
  static void forget_sent(Asker& asker);

  fabric::Device device_;
  Handler& handler_;
  std::map<std::uint64_t, Asker> askers_;  // by peer
  std::set<std::uint64_t> behind_;         // peers that have yet to take answers
  std::unique_ptr<mail::MailHub> hub_;     // stops first
};

}  // namespace ferry::ps
