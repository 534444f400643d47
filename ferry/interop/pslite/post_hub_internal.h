#pragma once

#include <ps/ps.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferry/fabric/device.h"
#include "ferry/interop/pslite/job_secret_internal.h"
#include "ferry/interop/pslite/settings_internal.h"
#include "ferry/mail/mail_hub.h"

namespace ps {

// The device and the mailboxes of a node, and the secret that a scheduler has made for them. One
// thread opens and closes it; others use it while they have a Use.
class PostHub {
 public:
  using Hub = ferry::mail::MailHub;
  using PeerPtr = std::shared_ptr<Hub::Peer>;

  // Keeps the hub from being closed while a thread uses it; false: it is closed.
  class Use {
   public:
    explicit Use(PostHub& hub) : users_(hub.users_) {
      users_.fetch_add(1);
      allowed_ = !hub.closed_;
    }
    ~Use() { users_.fetch_sub(1); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    explicit operator bool() const { return allowed_; }

   private:
    std::atomic<int>& users_;
    bool allowed_ = false;
  };

  // Both throw dmlc::Error. The scheduler may not be there yet, or still be that of an earlier job,
  // with another secret: connect() waits for it.
  void open_scheduler(const Settings& settings, Hub::Handler& handler);
  PeerPtr connect_scheduler(const Settings& settings, Hub::Handler& handler);

  bool is_closed() const { return closed_; }
  std::string endpoint() const { return device_->endpoint(); }
  // Shared with arrays that messages lie in.
  const std::shared_ptr<ferry::fabric::Device>& device() const { return device_; }
  ferry::Result<PeerPtr> connect(const std::string& endpoint, ferry::Deadline deadline) {
    return hub_->connect(endpoint, deadline);
  }
  // Sends a message whose arrays are those of `data`, if there is one.
  static ferry::Status try_post(const PeerPtr& peer, const std::vector<std::byte>& head,
                                const Message* data = nullptr);
  // The same; a failure is logged.
  static void post(const PeerPtr& peer, const std::vector<std::byte>& head,
                   const Message* data = nullptr);
  // The arrays of a message that came from the peer: in the message where they lie well, else
  // copied. The last array that is in it lets go of the message.
  std::vector<SArray<char>> lend_arrays(const PeerPtr& peer, ferry::mail::Message message) const;
  // Receives on the calling thread until ready(), or for a while: whether it was.
  bool receive_until(const std::function<bool()>& ready);
  // Refuses new users, waits for the others, and closes; also what was opened by half.
  void close();

 private:
  void open(const Settings& settings, const std::string& secret, Hub::Handler& handler);

  std::shared_ptr<ferry::fabric::Device> device_;
  std::unique_ptr<Hub> hub_;
  std::optional<JobSecret> secret_;
  std::atomic<int> users_{0};
  std::atomic<bool> closed_{true};
};

}  // namespace ps
