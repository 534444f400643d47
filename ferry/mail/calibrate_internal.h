#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferry/mail/calibrate.h"
#include "ferry/mail/mailbox.h"
#include "ferry/mail/tuning.h"

// The two ends of a calibration: one leads by commands, small messages of the channel; the other
// does what it is told.

namespace ferry::mail {

// Tells the other end what comes next.
struct CalibrateCommand {
  enum class Kind : std::uint32_t {
    kOpen = 1,    // a mailbox with this tuning, by both ends
    kRounds = 2,  // `rounds` messages come by mailbox `trial`; each is answered
    kClose = 3,   // all mailboxes
    kEnd = 4,     // the result comes by mailbox 0
  };
  Kind kind = Kind::kEnd;
  std::uint32_t trial = 0;
  std::uint64_t rounds = 0;
  Tuning tuning{};

  std::vector<std::byte> to_wire() const;
  static Result<CalibrateCommand> from_wire(std::span<const std::byte> wire);
};

// One end: the mailboxes under test, in the order in which they were opened.
class CalibrationEnd {
 public:
  CalibrationEnd(fabric::Device& device, fabric::Channel& channel, Deadline deadline)
      : device_(device), channel_(channel), deadline_(deadline) {}

  Status open(const Tuning& tuning);
  void close();
  Mailbox& box(std::size_t trial) { return *trials_[trial]->box; }
  std::size_t size() const { return trials_.size(); }

  Status send(const CalibrateCommand& command);
  Result<CalibrateCommand> receive();

  fabric::Channel& channel() { return channel_; }
  Deadline deadline() const { return deadline_; }

 private:
  // A room each: whoever waits looks at every mailbox of its room, and that takes time.
  struct Trial {
    std::optional<MailRoom> room;
    std::optional<Mailbox> box;
  };
  fabric::Device& device_;
  fabric::Channel& channel_;
  const Deadline deadline_;
  std::vector<std::unique_ptr<Trial>> trials_;  // which stay where they are
};

// One figure to be found: a point of a curve, on a mailbox, by messages of one kind.
struct CalibrateProbe {
  const char* curve = "";
  std::uint64_t at = 0;
  std::size_t trial = 0;
  std::uint64_t bytes = 0;
  bool ordinary = false;  // from memory that is not the mailbox's
  fabric::WaitMode mode = fabric::WaitMode::kAdaptive;
  std::vector<double> taken{};
};

// The end that leads: opens mailboxes, sends rounds, collects curves.
class CalibrationLead {
 public:
  CalibrationLead(CalibrationEnd& end, const Tuning& defaults, const CalibrateOptions& options)
      : end_(end), defaults_(defaults), options_(options) {}
  Result<Calibration> run();

 private:
  // Each measures the curves by which one threshold of the tuning is chosen. They run in this
  // order: try_chunks_in_flight() uses the size of chunks that try_chunks() has found.
  Status compare_eager();
  Status compare_copies();
  Status try_chunks();
  Status try_chunks_in_flight();
  Status try_spins();

  // Opens one more mailbox at both ends, and returns its index.
  Result<std::size_t> add_trial(const Tuning& tuning);
  // Measures in turns for this share of the time, keeps the medians, closes the mailboxes.
  Status sweep(std::vector<CalibrateProbe> probes, double share);
  // Plays rounds of one probe for that time, and notes how long they took.
  Status visit(CalibrateProbe& probe, Nanos time);
  // Sends one message there and back; `ns` is how long that took.
  Status round(Mailbox& box, std::span<const std::byte> message, fabric::WaitMode mode, double& ns);
  // Adds the medians of these probes to the curves of what was found.
  void keep(const std::vector<CalibrateProbe>& probes);
  // Sends what was found to the other end, which ends the calibration there.
  Status tell_result();

  CalibrationEnd& end_;
  const Tuning defaults_;
  const CalibrateOptions options_;
  Deadline late_;  // then the rest keeps its defaults
  Calibration found_;
  std::vector<std::byte> ordinary_;
};

Result<Calibration> follow_calibration(CalibrationEnd& end);

}  // namespace ferry::mail
