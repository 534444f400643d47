#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "tests/contract/echo.h"
#include "tests/contract/mail_echo.h"
#include "tests/contract/peer.h"

namespace ferry::contract {

namespace {

// Serves one channel: takes orders and answers them, until the channel ends.
class Servant {
 public:
  Servant(Device& device, Channel channel)
      : device_(device), channel_(std::move(channel)), thread_([this] { run(); }) {}
  // The channel has ended, or the device was closed, which ends it.
  ~Servant() {
    thread_.join();
    for (auto& [name, piece] : pieces_) (void)device_.withdraw(name);
  }
  bool ended() const { return ended_; }

 private:
  void run() {
    std::vector<std::byte> message(channel_.capabilities().max_message);
    while (channel_.alive()) {
      auto size = channel_.receive(message, Deadline::after(1s));
      if (!size && size.error().code() == Code::kDeadlineExceeded) continue;
      if (!size) break;
      std::string text(reinterpret_cast<const char*>(message.data()), *size);
      std::string answer;
      try {
        answer = obey(text);
      } catch (const std::exception& error) {
        answer = text + ": " + error.what();
      }
      (void)channel_.send(std::as_bytes(std::span(answer)), {.deadline = soon()}).wait();
    }
    ended_ = true;
  }

  std::string obey(const std::string& text) {
    std::istringstream words(text);
    std::string verb;
    std::string name;
    words >> verb;
    if (verb == "static") return echo_static(device_, channel_, words);
    if (verb == "dynamic") return echo_dynamic(device_, channel_, words);
    if (verb == "mail") return echo_mail(device_, channel_, words);
    if (verb == "cross") return cross_mail(device_, channel_, words);
    words >> name;
    if (verb == "arena") return make(name, number_in(words), Memory::kArena);
    if (verb == "own") return make(name, number_in(words), Memory::kOwn);
    if (verb == "stamp") return stamp(piece(name).bytes(), number_in(words)), "ok";
    if (verb == "check") return check(piece(name).bytes(), number_in(words));
    if (verb == "pong") return pong(piece(name), words);
    if (verb == "push" || verb == "pull") return copy(verb == "push", name, words);
    if (verb == "add") return add(name, number_in(words));
    if (verb == "busy") return busy(name, number_in(words));
    if (verb == "mute") return mute();
    return "there is no such order";
  }

  static std::uint64_t number_in(std::istringstream& words) {
    std::uint64_t number = 0;
    if (!(words >> number)) throw std::runtime_error("a number is missing");
    return number;
  }
  Piece& piece(const std::string& name) {
    auto it = pieces_.find(name);
    if (it == pieces_.end()) throw std::runtime_error("no region " + name);
    return it->second;
  }
  static std::string check(std::span<const std::byte> bytes, std::uint64_t seed) {
    auto result = stamped(bytes, seed);
    return result ? "ok" : result.message();
  }

  std::string make(const std::string& name, std::size_t bytes, Memory memory) {
    (void)device_.withdraw(name);
    pieces_.insert_or_assign(name, make_piece(device_, bytes, memory));
    must(device_.publish(name, pieces_.at(name).remote));
    return "ok";
  }

  std::string pong(Piece& mine, std::istringstream& words) {
    std::string theirs_name;
    words >> theirs_name;
    auto bytes = number_in(words);
    auto count = number_in(words);
    auto mode = static_cast<WaitMode>(number_in(words));
    auto theirs = must(channel_.look_up(theirs_name, soon()));
    auto flag_at = (bytes + 7) / 8 * 8;
    std::vector<std::byte> out(bytes);
    for (std::uint64_t round = 1; round <= count; ++round) {
      must(channel_.wait_flag(mine.data() + flag_at, round, soon(), mode));
      auto seen = check(mine.bytes().first(bytes), round);
      if (seen != "ok") return "round " + std::to_string(round) + ": " + seen;
      stamp(out, round + 1'000'000);
      must(channel_.write_flagged(out, theirs, {theirs, flag_at}, round, {.deadline = soon()}));
    }
    return "ok";
  }

  std::string copy(bool push, const std::string& name, std::istringstream& words) {
    std::vector<std::byte> bytes(number_in(words));
    auto seed = number_in(words);
    auto theirs = must(channel_.look_up(name, soon()));
    if (push) {
      stamp(bytes, seed);
      must(channel_.write(bytes, theirs, {.deadline = soon()}));
      return "ok";
    }
    must(channel_.read(bytes, theirs, {.deadline = soon()}));
    return check(bytes, seed);
  }

  std::string add(const std::string& name, std::uint64_t times) {
    auto theirs = must(channel_.look_up(name, soon()));
    for (std::uint64_t i = 0; i < times; ++i) {
      must(channel_.fetch_add(theirs, 1, {.deadline = soon()}));
    }
    return "ok";
  }

  std::string busy(const std::string& name, std::size_t size) {
    auto theirs = must(channel_.look_up(name, soon()));
    std::vector<std::byte> bytes(size);
    while (channel_.write(bytes, theirs, {.deadline = soon()}).wait()) {
    }
    return "ok";
  }

  std::string mute() {
    while (channel_.alive()) std::this_thread::sleep_for(1ms);
    return "ok";
  }

  Device& device_;
  Channel channel_;
  std::map<std::string, Piece> pieces_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

bool input_ended() {
  pollfd input{STDIN_FILENO, POLLIN | POLLHUP, 0};
  char letter = 0;
  return poll(&input, 1, 0) > 0 && read(STDIN_FILENO, &letter, 1) <= 0;
}

}  // namespace

int serve(bool announce) {
  if (announce) prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto device = Device::open(device_options());
  if (!device) {
    std::fprintf(stderr, "%s\n", device.error().to_string().c_str());
    return 2;
  }
  std::printf("%s\n", device->endpoint().c_str());
  std::fflush(stdout);
  std::vector<std::unique_ptr<Servant>> servants;
  while (!announce || !input_ended()) {
    auto channel = device->accept(Deadline::after(20ms));
    if (channel) {
      servants.push_back(std::make_unique<Servant>(*device, std::move(*channel)));
    } else if (channel.error().code() != Code::kDeadlineExceeded) {
      std::fprintf(stderr, "%s\n", channel.error().to_string().c_str());
      return 2;
    }
    std::erase_if(servants, [](const auto& servant) { return servant->ended(); });
  }
  device->close();
  servants.clear();
  return 0;
}

}  // namespace ferry::contract
