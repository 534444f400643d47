#include "core.h"

namespace tensorferry {

namespace {

struct Mailbox {
  nb::object device;
  Handle<ferry_mailbox, ferry_mailbox_free> handle{"mailbox"};
};

// Parts that a send still reads.
struct Sending {
  Handle<ferry_sending, ferry_sending_free> handle{"message"};
  std::vector<Bytes> parts;
};

std::unique_ptr<Mailbox> open_mailbox(nb::object channel, Timeout timeout,
                                      const std::string& tuning) {
  const Channel::Call on(nb::cast<Channel&>(channel));
  ferry_mailbox_options options{};
  options.size = sizeof(options);
  options.tuning = tuning == "measure" ? 0 : tuning == "kept" ? 1 : tuning == "off" ? 2 : 3;
  if (options.tuning == 3)
    fail(FERRY_INVALID_ARGUMENT, "tuning is 'measure', 'kept' or 'off', not '" + tuning + "'");
  auto made = std::make_shared<ferry_mailbox*>(nullptr);
  ferry_channel* const plain = on;
  wait_whole(timeout,
             [plain, options, made](auto ns) {
               return ferry_mailbox_open(plain, &options, ns, made.get());
             },
             {channel});
  auto mailbox = std::make_unique<Mailbox>();
  mailbox->handle.take(*made);
  mailbox->device = nb::cast<Channel&>(channel).device;
  return mailbox;
}

std::unique_ptr<Sending> post(Mailbox& self, nb::handle data, Timeout timeout) {
  auto sending = std::make_unique<Sending>();
  sending->parts = all_bytes_to_read(data);
  std::vector<ferry_part> parts;
  for (const auto& part : sending->parts) parts.push_back({part.data, part.size});
  const auto ns = timeout ? static_cast<std::int64_t>(*timeout * 1e9) : -1;
  auto* const own = self.handle.get();
  ferry_error* error = nullptr;
  {
    Unlocked out;
    error = ferry_mailbox_send(own, parts.data(), parts.size(), ns, sending->handle.out());
  }
  check(error);
  return sending;
}

void wait_sending(Sending& self, Timeout timeout) {
  auto* const own = self.handle.get();
  wait_in_slices(timeout, [&](auto ns) { return ferry_sending_wait(own, ns); });
}

// The parts as arrays of bytes; the message lives as long as any of them.
nb::list parts_of(ferry_message* message) {
  const nb::capsule owner(
      message, [](void* p) noexcept { ferry_message_free(static_cast<ferry_message*>(p)); });
  nb::list parts;
  for (std::size_t i = 0; i < ferry_message_parts(message); ++i) {
    const auto part = ferry_message_part(message, i);
    ferry_tensor tensor{{FERRY_U8, 1, {}, {static_cast<std::int64_t>(part.bytes)}},
                        const_cast<void*>(part.data),
                        part.bytes};
    parts.append(array_over(tensor, owner, false));
  }
  return parts;
}

}  // namespace

void bind_mail(nb::module_& module) {
  nb::class_<Sending>(module, "Sending", nb::is_weak_referenceable(),
                      "A message under way. It keeps its parts until it has ended.")
      .def("wait", &wait_sending, "timeout"_a.none() = nb::none())
      .def_prop_ro("done",
                   [](Sending& self) { return ferry_sending_ended(self.handle.get()) != 0; });
  nb::class_<Mailbox>(module, "Mailbox", nb::is_weak_referenceable(),
                      "Messages of any size, both ways, over a channel; both ends open one, at the "
                      "same time.")
      .def(nb::new_(&open_mailbox), "channel"_a, "timeout"_a.none() = kUsual, "tuning"_a = "kept")
      .def(
          "send",
          [](Mailbox& self, nb::handle data, Timeout timeout) {
            wait_sending(*post(self, data, timeout), timeout);
          },
          "data"_a, "timeout"_a.none() = kUsual,
          "Sends bytes or an array, or a list of them as the parts of one message, and waits until "
          "they may be used again.")
      .def_prop_ro("_device", [](Mailbox& self) { return self.device; })
      .def("post", &post, "data"_a, "timeout"_a.none() = kUsual, "The same without waiting.")
      .def(
          "receive",
          [](Mailbox& self, Timeout timeout) {
            auto* const own = self.handle.get();
            ferry_message* message = nullptr;
            wait_in_slices(timeout,
                           [&](auto ns) { return ferry_mailbox_receive(own, ns, &message); });
            return parts_of(message);
          },
          "timeout"_a.none() = kUsual,
          "The parts of the next message: arrays of bytes where they landed, which hold the memory "
          "until the last is gone.")
      .def(
          "drain",
          [](Mailbox& self, Timeout timeout) {
            auto* const own = self.handle.get();
            wait_in_slices(timeout, [&](auto ns) { return ferry_mailbox_drain(own, ns); });
          },
          "timeout"_a.none() = kUsual)
      .def("explain", [](Mailbox& self) {
        ferry_text* text = nullptr;
        check(ferry_mailbox_describe(self.handle.get(), &text));
        return json_of(text);
      });
}

}  // namespace tensorferry
