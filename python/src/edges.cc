#include "core.h"

namespace tensorferry {

namespace {

ferry_ticket ticket_from(const nb::bytes& bytes) {
  ferry_ticket ticket;
  if (bytes.size() != sizeof(ticket.bytes))
    fail(FERRY_INVALID_ARGUMENT,
         "a ticket has 160 bytes: those of Receiver.ticket or Writer.admit()");
  memcpy(ticket.bytes, bytes.c_str(), sizeof(ticket.bytes));
  return ticket;
}

// An array over an arrival, which is let go of with the last view.
nb::object array_of(ferry_arrival* arrival, bool writable) {
  const nb::capsule owner(
      arrival, [](void* p) noexcept { ferry_arrival_free(static_cast<ferry_arrival*>(p)); });
  ferry_tensor tensor{};
  ferry_arrival_tensor(arrival, &tensor);
  return array_over(tensor, owner, writable);
}

struct Receiver {
  nb::object device;
  Handle<ferry_receiver, ferry_receiver_free> handle{"receiver"};
  OneAtATime thread;
  nb::bytes ticket;
  bool writable = true;
  int mode = FERRY_ADAPTIVE;

  nb::object receive(Timeout timeout) {
    const OneAtATime::Use use(thread);
    auto* const own = handle.get();
    ferry_arrival* arrival = nullptr;
    wait_in_slices(timeout,
                   [&](auto ns) { return ferry_receiver_receive(own, ns, mode, &arrival); });
    return array_of(arrival, writable);
  }
};

std::unique_ptr<Receiver> open_receiver(Channel& channel, nb::handle shape, nb::handle dtype,
                                        bool dynamic, std::uint32_t slots, bool copies,
                                        bool spins) {
  const Channel::Call on(channel);
  auto receiver = std::make_unique<Receiver>();
  const auto spec = spec_of(shape, dtype);
  ferry_receiver_options options{};
  options.size = sizeof(options);
  options.protocol = dynamic ? FERRY_DYNAMIC : FERRY_STATIC;
  options.slots = slots;
  options.copies = copies ? 1 : 0;
  options.spins = spins ? 1 : 0;
  check(ferry_receiver_open(on, &spec, &options, receiver->handle.out()));
  ferry_ticket ticket;
  check(ferry_receiver_ticket(receiver->handle.get(), &ticket));
  receiver->ticket = nb::bytes(ticket.bytes, sizeof(ticket.bytes));
  receiver->device = channel.device;
  receiver->writable = !dynamic;  // a large one may lie in the sender's memory
  receiver->mode = spins ? FERRY_SPIN : FERRY_ADAPTIVE;
  return receiver;
}

struct Sender {
  Handle<ferry_sender, ferry_sender_free> handle{"sender"};
  OneAtATime thread;
  ferry_spec spec{};
  bool dynamic = false;
  bool started = false;  // a wait for its end was given up
  nb::object pending;    // what is being sent then

  // One attempt to bring the tensor on its way and to its end.
  ferry_error* step(const ferry_tensor& tensor, bool& sent, std::int64_t ns) {
    for (;;) {
      int yes = 0;
      auto* const own = handle.get();
      if (auto* error =
              started ? ferry_sender_finished(own, &yes) : ferry_sender_start(own, &tensor, &yes)) {
        started = false;
        return error;
      }
      if (yes != 0 && started) {
        started = false;
        sent = true;
        return nullptr;
      }
      if (yes != 0) {
        started = true;
        continue;
      }
      if (auto* error = ferry_sender_wait(own, ns)) return error;
    }
  }

  void finish_pending(Timeout timeout) {
    if (!started) return;
    bool sent = false;
    wait_in_slices(timeout, [&](auto ns) { return step({}, sent, ns); });
    pending = nb::object();
  }

  void send(const ferry_tensor& tensor, nb::object keep, Timeout timeout) {
    finish_pending(timeout);
    bool sent = false;
    pending = std::move(keep);
    wait_in_slices(timeout, [&](auto ns) { return step(tensor, sent, ns); });
    pending = nb::object();
  }
};

// `with sender.output() as array:`. The array is sent at the end of the block, unless it is left by
// an exception.
struct Output {
  nb::object sender;
  ferry_spec spec{};
  Timeout timeout;
  nb::object array;
  ferry_tensor tensor{};
  bool in_place = false;

  nb::object enter() {
    auto& own = nb::cast<Sender&>(sender);
    const OneAtATime::Use use(own.thread);
    own.finish_pending(timeout);
    int place = 0;
    ferry_error* error = nullptr;
    auto* const handle = own.handle.get();
    {
      Unlocked out;
      error = ferry_sender_output(handle, own.dynamic ? &spec : nullptr, &tensor, &place);
    }
    check(error);
    in_place = place != 0;
    array = array_over(tensor, sender, true);
    return array;
  }

  void exit(nb::handle type) {
    auto kept = std::exchange(array, nb::object());
    if (!kept.is_valid()) fail(FERRY_FAILED_PRECONDITION, "the block has ended already");
    make_read_only(kept);
    if (!type.is_none()) return;
    auto& own = nb::cast<Sender&>(sender);
    const OneAtATime::Use use(own.thread);
    own.send(tensor, std::move(kept), timeout);
  }
};

std::unique_ptr<Sender> open_sender(Channel& channel, const nb::bytes& ticket,
                                    bool private_memory) {
  const Channel::Call on(channel);
  auto sender = std::make_unique<Sender>();
  const auto plain = ticket_from(ticket);
  check(ferry_ticket_spec(&plain, &sender->spec));
  for (unsigned i = 0; i < sender->spec.rank; ++i) sender->dynamic |= sender->spec.dims[i] < 0;
  ferry_sender_options options{sizeof(options), private_memory ? 1 : 0};
  check(ferry_sender_open(on, &plain, &options, sender->handle.out()));
  ferry_tensor tensor{};
  if (!sender->dynamic) {  // a dynamic edge may have a spec without unknown dimensions
    if (auto* error = ferry_sender_output(sender->handle.get(), nullptr, &tensor, nullptr)) {
      sender->dynamic = ferry_error_code(error) == FERRY_INVALID_ARGUMENT;
      ferry_error_free(error);
    }
  }
  return sender;
}

std::unique_ptr<Output> output_of(nb::object self, nb::handle shape, nb::handle dtype,
                                  Timeout timeout) {
  auto& own = nb::cast<Sender&>(self);
  auto output = std::make_unique<Output>();
  output->spec = own.spec;
  if (!shape.is_none()) {
    if (!own.dynamic)
      fail(FERRY_INVALID_ARGUMENT, "the shape of this edge is fixed: output() takes none");
    const auto type = own.spec.type;
    output->spec =
        spec_of(shape, dtype.is_none() ? nb::object(nb::str("uint8")) : nb::borrow(dtype));
    if (dtype.is_none()) output->spec.type = type;
  } else if (own.dynamic) {
    fail(FERRY_INVALID_ARGUMENT, "shapes of this edge change: output() needs one");
  }
  output->sender = std::move(self);
  output->timeout = timeout;
  return output;
}

void send_array(Sender& self, nb::object array, Timeout timeout) {
  const OneAtATime::Use use(self.thread);
  const auto bytes = bytes_to_read(array);
  auto tensor = bytes.tensor();
  if (tensor.spec.rank > 8) fail(FERRY_INVALID_ARGUMENT, "a tensor has at most 8 dimensions");
  self.send(tensor, std::move(array), timeout);
}

void bind_sender(nb::module_& module) {
  nb::class_<Output>(module, "Output")
      .def("__enter__", &Output::enter)
      .def("__exit__", [](Output& self, nb::args args) { self.exit(args[0]); })
      .def_ro("in_place", &Output::in_place, "Whether it lies in the receiver's memory.");
  nb::class_<Sender>(module, "Sender", nb::is_weak_referenceable(),
                     "The sending end of an edge. One thread at a time.\n\n"
                     ">>> receiver = tensorferry.Receiver(back, (2, 2), 'float32')\n"
                     ">>> sender = tensorferry.Sender(channel, receiver.ticket)\n"
                     ">>> with sender.output() as array:\n...     array[:] = 7\n"
                     ">>> receiver.receive().sum()\nnp.float32(28.0)")
      .def(nb::new_(&open_sender), "channel"_a, "ticket"_a, nb::kw_only(),
           "private_memory"_a = false)
      .def(
          "output", &output_of, "shape"_a = nb::none(), "dtype"_a = nb::none(),
          "timeout"_a.none() = kUsual,
          "The place for the next tensor, for `with`: on one host the receiver's own memory. It is "
          "sent at the end of the block, and read-only from then on.")
      .def("send", &send_array, "array"_a, "timeout"_a.none() = kUsual,
           "Sends an array that lies anywhere.")
      .def(
          "drain",
          [](Sender& self, Timeout timeout) {
            const OneAtATime::Use use(self.thread);
            self.finish_pending(timeout);
            wait_in_slices(timeout,
                           [&](auto ns) { return ferry_sender_drain(self.handle.get(), ns); });
          },
          "timeout"_a.none() = kUsual, "Waits until the receiver has let go of every tensor.")
      .def_prop_ro("shape", [](Sender& self) { return shape_of(self.spec); })
      .def(
          "explain",
          [](Sender& self) {
            ferry_text* text = nullptr;
            check(ferry_sender_describe(self.handle.get(), &text));
            return json_of(text);
          },
          "Counts: tensors, those made in place, copies.")
      .def("close", [](Sender& self) {
        const OneAtATime::Use use(self.thread);
        self.handle.reset();
      });
}

void bind_receiver(nb::module_& module) {
  nb::class_<Receiver>(
      module, "Receiver", nb::is_weak_referenceable(),
      "The receiving end of an edge: tensors of one shape, or with dynamic=True of "
      "any that fits a shape with None in it. One thread at a time.")
      .def(nb::new_(&open_receiver), "channel"_a, "shape"_a, "dtype"_a = "float32", nb::kw_only(),
           "dynamic"_a = false, "slots"_a = 2, "copies"_a = false, "spins"_a = false)
      .def(
          "receive", &Receiver::receive, "timeout"_a.none() = kUsual,
          "The next tensor, where it landed. The array holds its slot until its last view is gone; "
          "when all are held, ResourceExhausted says so.\n\n"
          ">>> receiver = tensorferry.Receiver(back, (None,), 'int64', dynamic=True)\n"
          ">>> sender = tensorferry.Sender(channel, receiver.ticket)\n"
          ">>> with sender.output(3) as array:\n...     array[:] = 5\n"
          ">>> receiver.receive().tolist()\n[5, 5, 5]")
      .def_ro("ticket", &Receiver::ticket, "For one Sender: 160 bytes, to be handed on by any way.")
      .def_prop_ro("_device", [](Receiver& self) { return self.device; })
      .def_prop_ro("held", [](Receiver& self) { return ferry_receiver_held(self.handle.get()); })
      .def_prop_ro("slots", [](Receiver& self) { return ferry_receiver_slots(self.handle.get()); })
      .def("explain",
           [](Receiver& self) {
             ferry_text* text = nullptr;
             check(ferry_receiver_describe(self.handle.get(), &text));
             return json_of(text);
           })
      .def("close", [](Receiver& self) {
        const OneAtATime::Use use(self.thread);
        self.handle.reset();
      });
}

struct Writer {
  Handle<ferry_writer, ferry_writer_free> handle{"writer"};
  OneAtATime thread;
};

struct WriterOutput {
  nb::object writer;
  Timeout timeout;
  nb::object array;
};

struct Reader {
  nb::object device;
  Handle<ferry_reader, ferry_reader_free> handle{"reader"};
  OneAtATime thread;
};

void bind_writer(nb::module_& module) {
  nb::class_<WriterOutput>(module, "WriterOutput")
      .def("__enter__",
           [](WriterOutput& self) {
             auto& own = nb::cast<Writer&>(self.writer);
             const OneAtATime::Use use(own.thread);
             ferry_tensor tensor{};
             wait_in_slices(self.timeout, [&](auto ns) {
               return ferry_writer_output(own.handle.get(), ns, &tensor);
             });
             self.array = array_over(tensor, self.writer, true);
             return self.array;
           })
      .def("__exit__", [](WriterOutput& self, nb::args args) {
        auto& own = nb::cast<Writer&>(self.writer);
        const OneAtATime::Use use(own.thread);
        make_read_only(std::exchange(self.array, nb::object()));
        std::uint64_t version = 0;
        if (nb::handle(args[0]).is_none()) check(ferry_writer_publish(own.handle.get(), &version));
      });
  nb::class_<Writer>(
      module, "SharedWriter", nb::is_weak_referenceable(),
      "One tensor that this process writes again and again, and readers of this host "
      "read in place.\n\n"
      ">>> writer = tensorferry.SharedWriter(device, (4,), 'float32')\n"
      ">>> reader = tensorferry.SharedReader(back, writer.admit(channel))\n"
      ">>> with writer.output() as array:\n...     array[:] = 3\n"
      ">>> reader.read().tolist()\n[3.0, 3.0, 3.0, 3.0]")
      .def(nb::new_([](Device& device, nb::handle shape, nb::handle dtype, std::uint32_t versions) {
             auto writer = std::make_unique<Writer>();
             const auto spec = spec_of(shape, dtype);
             ferry_writer_options options{sizeof(options), versions, 0};
             check(ferry_writer_open(device.handle.get(), &spec, &options, writer->handle.out()));
             return writer;
           }),
           "device"_a, "shape"_a, "dtype"_a = "float32", "versions"_a = 3)
      .def(
          "admit",
          [](Writer& self, Channel& reader) {
            const OneAtATime::Use use(self.thread);
            const Channel::Call on(reader);
            ferry_ticket ticket;
            check(ferry_writer_admit(self.handle.get(), on, &ticket));
            return nb::bytes(ticket.bytes, sizeof(ticket.bytes));
          },
          "reader"_a, "A ticket for the reader at the end of the channel.")
      .def(
          "output",
          [](nb::object self, Timeout timeout) {
            return WriterOutput{std::move(self), timeout, {}};
          },
          "timeout"_a.none() = kUsual,
          "A version that nobody uses, for `with`; it is the newest at the end of the block.");
  nb::class_<Reader>(module, "SharedReader", nb::is_weak_referenceable(),
                     "Reads a tensor of a SharedWriter in place.")
      .def(nb::new_([](Channel& channel, const nb::bytes& ticket) {
             const Channel::Call on(channel);
             auto reader = std::make_unique<Reader>();
             reader->device = channel.device;
             const auto plain = ticket_from(ticket);
             check(ferry_reader_open(on, &plain, reader->handle.out()));
             return reader;
           }),
           "channel"_a, "ticket"_a)
      .def_prop_ro("_device", [](Reader& self) { return self.device; })
      .def(
          "read",
          [](Reader& self, std::uint64_t least, Timeout timeout) {
            const OneAtATime::Use use(self.thread);
            ferry_arrival* arrival = nullptr;
            wait_in_slices(timeout, [&](auto ns) {
              return ferry_reader_read(self.handle.get(), least, ns, &arrival);
            });
            return array_of(arrival, false);
          },
          "least"_a = 1, "timeout"_a.none() = kUsual,
          "The newest version, at least number `least`: an array that cannot be written.");
}

}  // namespace

void bind_edges(nb::module_& module) {
  bind_sender(module);
  bind_receiver(module);
  bind_writer(module);
}

}  // namespace tensorferry
