#include "core.h"

namespace tensorferry {

namespace {

using RegionHandle = Handle<ferry_region, ferry_region_free>;

struct Region {
  std::shared_ptr<RegionHandle> handle = std::make_shared<RegionHandle>("region");
  nb::object given;  // register(): the array whose memory it is
};

struct Transfer {
  explicit Transfer(Bytes bytes) : data(std::move(bytes)) {}
  Handle<ferry_transfer, ferry_transfer_free> handle{"transfer"};
  Bytes data;
};

std::int64_t op_ns(Timeout timeout) {
  return timeout ? static_cast<std::int64_t>(*timeout * 1e9) : -1;
}

std::unique_ptr<Device> open_device(const std::string& provider, const std::string& listen,
                                    const std::optional<std::string>& secret,
                                    const std::optional<std::string>& secret_file,
                                    std::uint64_t arena_bytes, std::uint64_t budget_bytes,
                                    std::optional<double> spin, double operation_timeout,
                                    double give_up, double patience, int lanes) {
  ferry_device_options options{};
  options.size = sizeof(options);
  options.provider = provider.c_str();
  options.listen = listen.c_str();
  if (secret) options.secret = secret->c_str();
  if (secret_file) options.secret_file = secret_file->c_str();
  options.arena_bytes = arena_bytes;
  options.budget_bytes = budget_bytes;
  if (spin) options.spin_ns = std::max<std::int64_t>(1, static_cast<std::int64_t>(*spin * 1e9));
  options.operation_ns = static_cast<std::int64_t>(operation_timeout * 1e9);
  options.give_up_ns = static_cast<std::int64_t>(give_up * 1e9);
  options.patience = patience;
  options.lanes_per_peer = lanes;
  auto device = std::make_unique<Device>();
  ferry_error* error = nullptr;
  {
    Unlocked out;
    error = ferry_device_open(&options, device->handle.out());
  }
  check(error);
  return device;
}

nb::object region_array(Region& self, nb::handle dtype, nb::handle shape, std::uint64_t offset) {
  ferry_tensor tensor{};
  auto* const region = self.handle->get();
  const auto size = ferry_region_size(region);
  tensor.spec = spec_of(shape.is_none() ? nb::make_tuple(1) : nb::borrow(shape), dtype);
  const auto item = nb::cast<std::uint64_t>(
      nb::module_::import_("numpy")
          .attr("dtype")(tensor.spec.type == FERRY_BF16 ? nb::str("uint16") : dtype)
          .attr("itemsize"));
  if (offset % item != 0) fail(FERRY_INVALID_ARGUMENT, "the offset is not aligned to the elements");
  if (shape.is_none() && offset <= size)
    tensor.spec.dims[0] = static_cast<std::int64_t>((size - offset) / item);
  tensor.bytes = item;
  for (unsigned i = 0; i < tensor.spec.rank; ++i) {
    const auto dim = static_cast<std::uint64_t>(tensor.spec.dims[i]);
    if (tensor.spec.dims[i] < 0 || (dim != 0 && tensor.bytes > size / dim))
      fail(FERRY_OUT_OF_RANGE, "the array would be larger than the region");
    tensor.bytes *= dim;
  }
  if (offset > size || tensor.bytes > size - offset)
    fail(FERRY_OUT_OF_RANGE, "the array would end beyond the region");
  tensor.data = static_cast<std::byte*>(ferry_region_data(region)) + offset;
  auto* const share = new std::shared_ptr<RegionHandle>(self.handle);
  const nb::capsule owner(
      share, [](void* p) noexcept { delete static_cast<std::shared_ptr<RegionHandle>*>(p); });
  return array_over(tensor, owner, true);
}

std::unique_ptr<Transfer> posted(Bytes data, const std::function<ferry_error*(Transfer&)>& post) {
  auto transfer = std::make_unique<Transfer>(std::move(data));
  ferry_error* error = nullptr;
  {
    Unlocked out;
    error = post(*transfer);
  }
  check(error);
  return transfer;
}

void wait_transfer(Transfer& self, Timeout timeout) {
  auto* const transfer = self.handle.get();
  wait_in_slices(timeout, [&](auto ns) { return ferry_transfer_wait(transfer, ns); });
}

nb::bytes remote_bytes(const ferry_remote& remote) { return nb::bytes(&remote, sizeof(remote)); }

ferry_remote remote_from(const nb::bytes& bytes) {
  ferry_remote remote;
  if (bytes.size() != sizeof(remote)) fail(FERRY_INVALID_ARGUMENT, "a remote region has 32 bytes");
  memcpy(&remote, bytes.c_str(), sizeof(remote));
  return remote;
}

void bind_regions(nb::module_& module) {
  nb::class_<ferry_remote>(module, "RemoteRegion",
                           "A grant on a region of another process. Plain data: pickle it, or send "
                           "its bytes by any way.")
      .def_ro("length", &ferry_remote::length)
      .def_ro("rights", &ferry_remote::rights)
      .def("to_bytes", &remote_bytes)
      .def_static("from_bytes", &remote_from, "data"_a)
      .def("__getstate__", [](const ferry_remote& self) { return remote_bytes(self); })
      .def("__setstate__", [](ferry_remote& self, const nb::bytes& bytes) {
        new (&self) ferry_remote(remote_from(bytes));
      });
  nb::class_<Region>(module, "Region", nb::is_weak_referenceable(),
                     "Memory that peers can be let at: Device.allocate(), Device.register().")
      .def("array", &region_array, "dtype"_a = "uint8", "shape"_a = nb::none(), "offset"_a = 0,
           "A numpy array over the memory, without a copy. It keeps the memory alive.\n\n"
           ">>> region = receiver_device.allocate(4096)\n"
           ">>> region.array('float32', (2, 3)).shape\n(2, 3)")
      .def_prop_ro("size", [](Region& self) { return ferry_region_size(self.handle->get()); })
      .def_prop_ro("address",
                   [](Region& self) {
                     return reinterpret_cast<std::uintptr_t>(ferry_region_data(self.handle->get()));
                   })
      .def(
          "close",
          [](Region& self, Timeout timeout) {
            if (!*self.handle) return;
            if (self.handle.use_count() > 1)
              fail(FERRY_FAILED_PRECONDITION,
                   "arrays still look at this region; let go of them first");
            auto* const region = self.handle->get();
            wait_in_slices(timeout, [&](auto ns) { return ferry_region_close(region, ns); });
            self.handle->reset();
            self.given = nb::object();
          },
          "timeout"_a.none() = kUsual, "Takes its grants back and gives the memory up.");
  nb::class_<Transfer>(module, "Transfer", nb::is_weak_referenceable(),
                       "One operation in flight. It keeps the local array until it has ended.")
      .def("wait", &wait_transfer, "timeout"_a.none() = nb::none(),
           "Waits for its end, and raises what went wrong.\n\n"
           ">>> bytes(memory[:3])\nb'\\x00\\x00\\x00'\n"
           ">>> channel.write(b'abc', remote).wait()\n>>> bytes(memory[:3])\nb'abc'")
      .def_prop_ro("done",
                   [](Transfer& self) { return ferry_transfer_ended(self.handle.get()) != 0; })
      .def_prop_ro(
          "value", [](Transfer& self) { return ferry_transfer_value(self.handle.get()); },
          "What an atomic operation found.")
      .def("cancel", [](Transfer& self) { ferry_transfer_cancel(self.handle.get()); });
}

std::unique_ptr<Channel> connect(Device& self, const std::string& endpoint, Timeout timeout,
                                 bool stripe) {
  auto* const device = self.handle.get();
  auto made = std::make_shared<ferry_channel*>(nullptr);
  wait_whole(timeout,
             [device, endpoint, stripe, made](auto ns) {
               ferry_connect_options options{sizeof(options), 0, stripe ? 1 : 0};
               return ferry_device_connect(device, endpoint.c_str(), &options, ns, made.get());
             },
             {nb::find(self)});
  auto channel = std::make_unique<Channel>();
  channel->handle.take(*made);
  channel->device = nb::find(self);
  return channel;
}

void wait_flag(Device& self, nb::handle array, std::uint64_t value, std::uint64_t offset,
               Timeout timeout) {
  auto* const device = self.handle.get();
  const auto bytes = bytes_to_read(array);
  if (offset > bytes.size || bytes.size - offset < 8)
    fail(FERRY_OUT_OF_RANGE, "a flag has 8 bytes, which end beyond the array");
  const auto* const word = static_cast<const std::byte*>(bytes.data) + offset;
  wait_in_slices(timeout, [&](auto ns) {
    return ferry_device_wait_flag(device, word, value, ns, FERRY_ADAPTIVE);
  });
}

ferry_remote grant(Device& self, Region& region, const std::string& rights, Channel* only) {
  std::uint32_t some = 0;
  for (const char letter : rights)
    some |= letter == 'r'   ? FERRY_READ
            : letter == 'w' ? FERRY_WRITE
            : letter == 'a' ? FERRY_ATOMIC
                            : 8;
  if (some == 0 || some > FERRY_ALL)
    fail(FERRY_INVALID_ARGUMENT, "rights are letters of 'rwa': read, write, atomic");
  ferry_remote remote{};
  check(ferry_device_grant(self.handle.get(), region.handle->get(), some,
                           only == nullptr ? nullptr : only->handle.get(), &remote));
  return remote;
}

void bind_memory(nb::class_<Device>& device) {
  device
      .def(
          "allocate",
          [](Device& self, std::uint64_t bytes) {
            auto region = std::make_unique<Region>();
            ferry_error* error = nullptr;
            auto* const own = self.handle.get();
            {
              Unlocked out;
              error = ferry_device_allocate(own, bytes, FERRY_ALL, region->handle->out());
            }
            check(error);
            return region;
          },
          "bytes"_a,
          "Zeroed memory that every provider reaches best.\n\n"
          ">>> receiver_device.allocate(64).size\n64")
      .def(
          "register",
          [](Device& self, nb::object array) {
            auto bytes = bytes_to_write(array);
            auto region = std::make_unique<Region>();
            ferry_error* error = nullptr;
            auto* const own = self.handle.get();
            {
              Unlocked out;
              error = ferry_device_register(own, bytes.writable(), bytes.size, FERRY_ALL,
                                            region->handle->out());
            }
            check(error);
            region->given = std::move(array);
            return region;
          },
          "array"_a, "The memory of an array as a region. The region keeps the array.")
      .def("grant", &grant, "region"_a, "rights"_a = "rw", "only"_a.none() = nb::none(),
           "Lets peers at a region: all of the cluster, or the one at the end of a channel.")
      .def(
          "revoke",
          [](Device& self, const ferry_remote& remote, Timeout timeout) {
            auto* const own = self.handle.get();
            wait_in_slices(timeout, [&](auto ns) { return ferry_device_revoke(own, &remote, ns); });
          },
          "grant"_a, "timeout"_a.none() = kUsual)
      .def(
          "publish",
          [](Device& self, const std::string& name, const ferry_remote& remote) {
            check(ferry_device_publish(self.handle.get(), name.c_str(), &remote));
          },
          "name"_a, "grant"_a, "Peers find the grant by this name: Channel.look_up().")
      .def(
          "withdraw",
          [](Device& self, const std::string& name) {
            check(ferry_device_withdraw(self.handle.get(), name.c_str()));
          },
          "name"_a)
      .def("wait_flag", &wait_flag, "array"_a, "value"_a, "offset"_a = 0,
           "timeout"_a.none() = kUsual,
           "Waits until the 64-bit word at `offset` bytes of the array, which a peer writes as a "
           "flag, is at least `value`.");
}

void bind_descriptor(nb::class_<Device>& device) {
  device
      .def(
          "fileno",
          [](Device& self) {
            int descriptor = -1;
            check(ferry_device_descriptor(self.handle.get(), &descriptor));
            return descriptor;
          },
          "Readable when there is something to do: see docs/python.md, await.")
      .def("_arm",
           [](Device& self) {
             int armed = 0;
             check(ferry_device_arm(self.handle.get(), &armed));
             return armed != 0;
           })
      .def("_disarm", [](Device& self) { check(ferry_device_disarm(self.handle.get())); })
      .def("_handle_ready",
           [](Device& self) { check(ferry_device_handle_ready(self.handle.get())); })
      .def("_progress", [](Device& self) { check(ferry_device_progress(self.handle.get())); });
}

void bind_data(nb::class_<Channel>& channel) {
  channel
      .def(
          "write",
          [](Channel& self, nb::handle data, const ferry_remote& remote, std::uint64_t offset,
             Timeout timeout) {
            const Channel::Call on(self);
            return posted(bytes_to_read(data), [&](Transfer& own) {
              return ferry_channel_write(on, own.data.data, own.data.size, &remote, offset,
                                         op_ns(timeout), own.handle.out());
            });
          },
          "data"_a, "remote"_a, "offset"_a = 0, "timeout"_a.none() = kUsual,
          "Copies an array into the peer's region.")
      .def(
          "read",
          [](Channel& self, nb::handle into, const ferry_remote& remote, std::uint64_t offset,
             Timeout timeout) {
            const Channel::Call on(self);
            return posted(bytes_to_write(into), [&](Transfer& own) {
              return ferry_channel_read(on, own.data.writable(), own.data.size, &remote, offset,
                                        op_ns(timeout), own.handle.out());
            });
          },
          "into"_a, "remote"_a, "offset"_a = 0, "timeout"_a.none() = kUsual,
          "Copies bytes of the peer's region into an array.")
      .def(
          "write_flagged",
          [](Channel& self, nb::handle data, const ferry_remote& remote, std::uint64_t flag_offset,
             std::uint64_t value, std::uint64_t offset, const ferry_remote* flag, Timeout timeout) {
            const Channel::Call on(self);
            return posted(bytes_to_read(data), [&](Transfer& own) {
              return ferry_channel_write_flagged(on, own.data.data, own.data.size, &remote, offset,
                                                 flag == nullptr ? &remote : flag, flag_offset,
                                                 value, op_ns(timeout), own.handle.out());
            });
          },
          "data"_a, "remote"_a, "flag_offset"_a, "value"_a, "offset"_a = 0,
          "flag"_a.none() = nb::none(), "timeout"_a.none() = kUsual,
          "The same, then stores `value` to the 64-bit word at `flag_offset`: who sees it sees "
          "every byte.")
      .def(
          "fetch_add",
          [](Channel& self, const ferry_remote& word, std::uint64_t addend, std::uint64_t offset,
             Timeout timeout) {
            const Channel::Call on(self);
            return posted({}, [&](Transfer& own) {
              return ferry_channel_fetch_add(on, &word, offset, addend, op_ns(timeout),
                                             own.handle.out());
            });
          },
          "word"_a, "addend"_a, "offset"_a = 0, "timeout"_a.none() = kUsual)
      .def(
          "compare_swap",
          [](Channel& self, const ferry_remote& word, std::uint64_t expected, std::uint64_t desired,
             std::uint64_t offset, Timeout timeout) {
            const Channel::Call on(self);
            return posted({}, [&](Transfer& own) {
              return ferry_channel_compare_swap(on, &word, offset, expected, desired,
                                                op_ns(timeout), own.handle.out());
            });
          },
          "word"_a, "expected"_a, "desired"_a, "offset"_a = 0, "timeout"_a.none() = kUsual);
}

void bind_messages(nb::class_<Channel>& channel) {
  channel
      .def(
          "send",
          [](Channel& self, nb::handle data, Timeout timeout) {
            const Channel::Call on(self);
            const auto sent = posted(bytes_to_read(data), [&](Transfer& own) {
              return ferry_channel_send(on, own.data.data, own.data.size, op_ns(timeout),
                                        own.handle.out());
            });
            wait_transfer(*sent, timeout);
          },
          "data"_a, "timeout"_a.none() = kUsual,
          "A small message, in order.\n\n>>> channel.send(b'hello')\n>>> back.receive()\nb'hello'")
      .def(
          "receive",
          [](Channel& self, Timeout timeout, std::size_t most) {
            const Channel::Call on(self);
            std::string room(most, '\0');
            std::uint64_t size = 0;
            wait_in_slices(timeout, [&](auto ns) {
              return ferry_channel_receive(on, room.data(), room.size(), ns, &size);
            });
            return nb::bytes(room.data(), size);
          },
          "timeout"_a.none() = kUsual, "most"_a = 65536)
      .def(
          "look_up",
          [](Channel& self, const std::string& name, Timeout timeout) {
            const Channel::Call on(self);
            ferry_remote remote{};
            wait_in_slices(timeout, [&](auto ns) {
              return ferry_channel_look_up(on, name.c_str(), ns, &remote);
            });
            return remote;
          },
          "name"_a, "timeout"_a.none() = kUsual,
          "The peer's region that is published by this name; waits for it.")
      .def(
          "explain",
          [](Channel& self) {
            const Channel::Call on(self);
            ferry_text* text = nullptr;
            check(ferry_channel_describe(on, &text));
            return json_of(text);
          },
          "Which provider it uses and why, what the path can do, and how the peer is.\n\n"
          ">>> channel.explain()['provider']\n'shm'");
}

void bind_channel(nb::module_& module) {
  nb::class_<Channel> channel(module, "Channel", nb::is_weak_referenceable(),
                              "A way to one peer: Device.connect(), Device.accept(). For any "
                              "number of threads.");
  bind_data(channel);
  bind_messages(channel);
  channel
      .def_prop_ro("provider",
                   [](Channel& self) { return ferry_channel_provider(self.handle.get()); })
      .def_prop_ro("peer", [](Channel& self) { return ferry_channel_peer(self.handle.get()); })
      .def_prop_ro("_device", [](Channel& self) { return self.device; })
      .def_prop_ro(
          "alive",
          [](Channel& self) { return self.handle && ferry_channel_alive(self.handle.get()) != 0; })
      .def(
          "close",
          [](Channel& self) {
            if (!self.handle) return;
            if (self.calls.load() != 0)
              fail(FERRY_FAILED_PRECONDITION, "another thread is using the channel");
            ferry_channel_close(self.handle.get());
            self.handle.reset();
          },
          "Ends what is pending. Arrays and edges that stand on it keep their memory.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](nb::object self, nb::args) { self.attr("close")(); });
}

}  // namespace

void bind_device(nb::module_& module) {
  bind_regions(module);
  nb::class_<Device> device(
      module, "Device", nb::is_weak_referenceable(),
      "One way out of this process: memory that peers may touch, and channels to them. For any "
      "number of threads.\n\n>>> with tensorferry.Device() as device:\n...     device.endpoint"
      ".startswith('127.0.0.1:')\nTrue");
  device
      .def(nb::new_(&open_device), nb::kw_only(), "provider"_a = "auto", "listen"_a = "127.0.0.1:0",
           "secret"_a.none() = nb::none(), "secret_file"_a.none() = nb::none(), "arena_bytes"_a = 0,
           "budget_bytes"_a = 0, "spin"_a.none() = nb::none(), "operation_timeout"_a = 60.0,
           "give_up"_a = 60.0, "patience"_a = 1.0, "lanes"_a = 1)
      .def_prop_ro("endpoint",
                   [](Device& self) { return ferry_device_endpoint(self.handle.get()); })
      .def_prop_ro("id", [](Device& self) { return ferry_device_id(self.handle.get()); })
      .def("connect", &connect, "endpoint"_a, "timeout"_a.none() = 10.0, "stripe"_a = false,
           "A channel to the device that listens there, by the best provider that both have.")
      .def(
          "accept",
          [](Device& self, Timeout timeout) {
            auto channel = std::make_unique<Channel>();
            auto* const own = self.handle.get();
            wait_in_slices(timeout, [&](auto ns) {
              return ferry_device_accept(own, ns, channel->handle.out());
            });
            channel->device = nb::find(self);
            return channel;
          },
          "timeout"_a.none() = kUsual, "The next channel that a peer has opened to this device.")
      .def(
          "explain",
          [](Device& self) {
            ferry_text* text = nullptr;
            check(ferry_device_describe(self.handle.get(), &text));
            return json_of(text);
          },
          "What each provider can do on this host, or why it is off; and counts.")
      .def(
          "close",
          [](Device& self) {
            if (!self.handle) return;
            auto* const own = self.handle.get();
            {
              Unlocked out;
              ferry_device_close(own);
            }
          },
          "Shuts peers out and ends what waits. Arrays keep their memory.")
      .def("__enter__", [](nb::object self) { return self; })
      .def("__exit__", [](nb::object self, nb::args) { self.attr("close")(); });
  bind_memory(device);
  bind_descriptor(device);
  bind_channel(module);
}

}  // namespace tensorferry
