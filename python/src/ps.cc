#include "core.h"

namespace tensorferry {

namespace {

struct Job {
  Handle<ferry_job, ferry_job_free> handle{"job"};
};

struct Worker {
  Handle<ferry_worker, ferry_worker_free> handle{"worker"};
  OneAtATime thread;
  nb::dict parameters;  // what is kept while a name is used: name -> number

  std::uint32_t number_of(const std::string& name) const {
    if (!parameters.contains(name.c_str()))
      fail(FERRY_NOT_FOUND,
           "'" + name + "' is not known to this worker: init() or find() it first");
    return nb::cast<std::uint32_t>(parameters[name.c_str()]);
  }
  ferry_spec spec_of_parameter(std::uint32_t parameter) const {
    ferry_spec spec{};
    check(ferry_worker_spec(handle.get(), parameter, &spec));
    return spec;
  }
};

int consistency_named(const std::string& name) {
  if (name == "sync") return FERRY_SYNC;
  if (name == "bounded") return FERRY_BOUNDED;
  if (name == "async") return FERRY_ASYNC;
  fail(FERRY_INVALID_ARGUMENT, "consistency is 'sync', 'bounded' or 'async', not '" + name + "'");
}

ferry_update update_from(nb::handle update) {
  ferry_update plain{};
  plain.kind = nb::cast<int>(update.attr("kind"));
  plain.rate = nb::cast<double>(update.attr("rate"));
  plain.momentum = nb::cast<double>(update.attr("momentum"));
  plain.beta1 = nb::cast<double>(update.attr("beta1"));
  plain.beta2 = nb::cast<double>(update.attr("beta2"));
  plain.epsilon = nb::cast<double>(update.attr("epsilon"));
  return plain;
}

std::unique_ptr<Job> open_job(std::uint32_t servers, std::uint32_t workers,
                              const std::string& consistency, std::uint64_t staleness, bool mean,
                              std::uint32_t replicas, std::uint32_t shards,
                              const std::string& provider, const std::string& listen) {
  ferry_job_options options{};
  options.size = sizeof(options);
  options.servers = servers;
  options.workers = workers;
  options.consistency = consistency_named(consistency);
  options.staleness = staleness;
  options.mean = mean ? 1 : 0;
  options.replicas = replicas;
  options.shards = shards;
  options.provider = provider.c_str();
  options.listen = listen.c_str();
  auto job = std::make_unique<Job>();
  ferry_error* error = nullptr;
  {
    Unlocked out;
    error = ferry_job_open(&options, job->handle.out());
  }
  check(error);
  return job;
}

struct WorkerArguments {
  std::optional<std::string> scheduler;
  std::optional<std::string> secret;
  std::string provider;
  int rank = 0;

  ferry_worker_options plain() const {
    ferry_worker_options options{};
    options.size = sizeof(options);
    if (scheduler) options.scheduler = scheduler->c_str();
    if (secret) options.secret = secret->c_str();
    if (scheduler) options.provider = provider.c_str();
    options.rank = rank;
    return options;
  }
};

std::unique_ptr<Worker> open_worker(std::optional<std::string> scheduler,
                                    std::optional<std::string> secret, std::string provider,
                                    std::optional<int> rank, Timeout timeout) {
  auto given = std::make_shared<WorkerArguments>(WorkerArguments{
      std::move(scheduler), std::move(secret), std::move(provider), rank ? *rank + 1 : 0});
  auto made = std::make_shared<ferry_worker*>(nullptr);
  wait_whole(timeout, [given, made](auto ns) {
    const auto options = given->plain();
    return ferry_worker_open(&options, ns, made.get());
  });
  auto worker = std::make_unique<Worker>();
  worker->handle.take(*made);
  return worker;
}

// Every call of a worker that waits. What `kept` has must stay until it has ended.
void call(nb::handle self, Timeout timeout, std::vector<nb::object> kept,
          std::function<ferry_error*(ferry_worker*, std::int64_t)> made) {
  auto& worker = nb::cast<Worker&>(self);
  const OneAtATime::Use use(worker.thread);
  auto* const own = worker.handle.get();
  kept.push_back(nb::borrow(self));
  wait_whole(
      timeout, [own, made = std::move(made)](auto ns) { return made(own, ns); }, std::move(kept));
}

void init(nb::object self, const std::string& name, nb::handle values, nb::handle update,
          Timeout timeout) {
  auto bytes = bytes_to_read(values);
  auto number = std::make_shared<std::uint32_t>(0);
  const auto rule = update_from(update);
  call(self, timeout, {bytes.owner}, [=](auto* own, auto ns) {
    return ferry_worker_init(own, name.c_str(), &bytes.spec, bytes.data, &rule, ns, number.get());
  });
  nb::cast<Worker&>(self).parameters[name.c_str()] = *number;
}

void find(nb::object self, const std::string& name, Timeout timeout) {
  auto number = std::make_shared<std::uint32_t>(0);
  call(self, timeout, {},
       [=](auto* own, auto ns) { return ferry_worker_find(own, name.c_str(), ns, number.get()); });
  nb::cast<Worker&>(self).parameters[name.c_str()] = *number;
}

nb::object allocate(nb::object self, nb::handle shape, nb::handle dtype, Timeout timeout) {
  const auto spec = spec_of(shape, dtype);
  auto tensor = std::make_shared<ferry_tensor>();
  call(self, timeout, {},
       [=](auto* own, auto ns) { return ferry_worker_allocate(own, &spec, ns, tensor.get()); });
  return array_over(*tensor, self, true);
}

void push(nb::object self, const std::string& name, nb::handle gradient, Timeout timeout) {
  const auto number = nb::cast<Worker&>(self).number_of(name);
  auto bytes = bytes_to_read(gradient);
  call(self, timeout, {bytes.owner}, [=, data = bytes.data, size = bytes.size](auto* own, auto ns) {
    return ferry_worker_push(own, number, data, size, ns);
  });
}

// In place where the server's memory is mapped: then the array has the lease, and is let go of by
// the worker's thread before its next push.
nb::object taken(nb::object self, ferry_pulled* pulled, const ferry_spec& spec) {
  ferry_tensor tensor{};
  ferry_pulled_tensor(pulled, &tensor);
  if (tensor.data != nullptr) {
    auto* const kept = new std::pair<nb::object, ferry_pulled*>(std::move(self), pulled);
    const nb::capsule owner(kept, [](void* p) noexcept {
      auto* const both = static_cast<std::pair<nb::object, ferry_pulled*>*>(p);
      ferry_pulled_free(both->second);
      delete both;
    });
    return array_over(tensor, owner, false);
  }
  auto array = empty_array(spec);
  const auto room = bytes_to_write(array);
  auto* const error = ferry_pulled_copy(pulled, room.writable(), room.size);
  ferry_pulled_free(pulled);
  check(error);
  return array;
}

nb::object pull(nb::object self, const std::string& name, Timeout timeout) {
  auto& worker = nb::cast<Worker&>(self);
  const auto number = worker.number_of(name);
  const auto spec = worker.spec_of_parameter(number);
  auto pulled = std::make_shared<ferry_pulled*>(nullptr);
  call(self, timeout, {},
       [=](auto* own, auto ns) { return ferry_worker_pull(own, number, ns, pulled.get()); });
  return taken(self, *pulled, spec);
}

void pull_to(nb::object self, const std::string& name, nb::handle into, Timeout timeout) {
  const auto number = nb::cast<Worker&>(self).number_of(name);
  auto bytes = bytes_to_write(into);
  call(self, timeout, {bytes.owner},
       [=, data = bytes.writable(), size = bytes.size](auto* own, auto ns) {
         return ferry_worker_pull_to(own, number, data, size, ns);
       });
}

using WorkerWait = ferry_error* (*)(ferry_worker*, std::int64_t);

template <WorkerWait kWait>
void simple(nb::object self, Timeout timeout) {
  call(self, timeout, {}, [](auto* own, auto ns) { return kWait(own, ns); });
}

void bind_worker(nb::module_& module) {
  nb::class_<Worker>(module, "Worker", nb::is_weak_referenceable(),
                     "One worker of a job of the parameter server. One thread at a time.")
      .def(nb::new_(&open_worker), "scheduler"_a.none() = nb::none(),
           "secret"_a.none() = nb::none(), nb::kw_only(), "provider"_a = "auto",
           "rank"_a.none() = nb::none(), "timeout"_a.none() = kUsual)
      .def("init", &init, "name"_a, "values"_a, "update"_a, "timeout"_a.none() = kUsual,
           "Makes a tensor with these first values, unless it is there already.")
      .def("find", &find, "name"_a, "timeout"_a.none() = kUsual)
      .def("allocate", &allocate, "shape"_a, "dtype"_a = "float32", "timeout"_a.none() = kUsual,
           "An array for gradients that servers on this host read where it is.")
      .def("push", &push, "name"_a, "gradient"_a, "timeout"_a.none() = kUsual,
           "Once a step for each tensor. The array may be used again when it returns.")
      .def("pull_to", &pull_to, "name"_a, "into"_a, "timeout"_a.none() = kUsual,
           "Copies the weights into an array.")
      .def("pull", &pull, "name"_a, "timeout"_a.none() = kUsual,
           "The weights in the server's memory, under a lease that ends with the array; let go of "
           "it before the next push. A copy where they are not in one piece.")
      .def("end_step", &simple<ferry_worker_end_step>, "timeout"_a.none() = kUsual)
      .def("flush", &simple<ferry_worker_flush>, "timeout"_a.none() = kUsual)
      .def("barrier", &simple<ferry_worker_barrier>, "timeout"_a.none() = kUsual)
      .def("leave", &simple<ferry_worker_leave>, "timeout"_a.none() = kUsual)
      .def_prop_ro("rank", [](Worker& self) { return ferry_worker_rank(self.handle.get()); })
      .def_prop_ro("step", [](Worker& self) { return ferry_worker_step(self.handle.get()); })
      .def(
          "shape",
          [](Worker& self, const std::string& name) {
            return shape_of(self.spec_of_parameter(self.number_of(name)));
          },
          "name"_a)
      .def(
          "names",
          [](nb::object self, Timeout timeout) {
            auto text = std::make_shared<ferry_text*>(nullptr);
            call(self, timeout, {},
                 [=](auto* own, auto ns) { return ferry_worker_names(own, ns, text.get()); });
            return json_of(*text);
          },
          "timeout"_a.none() = kUsual)
      .def(
          "snapshot",
          [](nb::object self, const std::string& folder, Timeout timeout) {
            auto text = std::make_shared<ferry_text*>(nullptr);
            call(self, timeout, {}, [=](auto* own, auto ns) {
              return ferry_worker_snapshot(own, folder.c_str(), ns, text.get());
            });
            return text_of(*text);
          },
          "folder"_a, "timeout"_a.none() = kUsual)
      .def("explain",
           [](Worker& self) {
             ferry_text* text = nullptr;
             check(ferry_worker_describe(self.handle.get(), &text));
             return json_of(text);
           })
      .def("close", [](Worker& self) {
        const OneAtATime::Use use(self.thread);
        self.handle.reset();
      });
}

struct Store {
  Handle<ferry_kvstore, ferry_kvstore_free> handle{"store"};
  OneAtATime thread;
};

struct Key {
  std::string name;
  int is_number = 0;
};

Key key_from(nb::handle key) {
  if (nb::isinstance<nb::str>(key)) return {nb::cast<std::string>(key), 0};
  return {std::to_string(nb::cast<std::int64_t>(key)), 1};
}

void call_store(nb::handle self, Timeout timeout, const std::vector<Bytes>& kept,
                std::function<ferry_error*(ferry_kvstore*, std::int64_t)> made) {
  auto& store = nb::cast<Store&>(self);
  const OneAtATime::Use use(store.thread);
  auto* const own = store.handle.get();
  std::vector<nb::object> objects{nb::borrow(self)};
  for (const auto& bytes : kept) objects.push_back(bytes.owner);
  wait_whole(
      timeout, [own, made = std::move(made)](auto ns) { return made(own, ns); },
      std::move(objects));
}

std::vector<ferry_tensor> tensors_of(const std::vector<Bytes>& all) {
  std::vector<ferry_tensor> tensors;
  for (const auto& each : all) tensors.push_back(each.tensor());
  return tensors;
}

std::unique_ptr<Store> open_store(std::string type, std::optional<std::string> scheduler,
                                  std::optional<std::string> secret, std::string provider,
                                  Timeout timeout) {
  auto given = std::make_shared<WorkerArguments>(
      WorkerArguments{std::move(scheduler), std::move(secret), std::move(provider), 0});
  auto made = std::make_shared<ferry_kvstore*>(nullptr);
  wait_whole(timeout, [given, made, type](auto ns) {
    const auto options = given->plain();
    return ferry_kvstore_create(type.c_str(), given->scheduler ? &options : nullptr, ns,
                                made.get());
  });
  auto store = std::make_unique<Store>();
  store->handle.take(*made);
  return store;
}

void bind_store(nb::module_& module) {
  nb::class_<Store>(module, "KVStore", nb::is_weak_referenceable(),
                    "Values by key, in the manner of MXNet's KVStore: docs/kvstore.md. Values are "
                    "float32.\n\n>>> store = tensorferry.KVStore('local')\n"
                    ">>> store.init('w', numpy.ones(3, 'float32'))\n"
                    ">>> store.push('w', numpy.full(3, 5, 'float32'))\n"
                    ">>> out = numpy.empty(3, 'float32')\n>>> store.pull('w', out)\n"
                    ">>> out.tolist()\n[5.0, 5.0, 5.0]")
      .def(nb::new_(&open_store), "type"_a = "local", "scheduler"_a.none() = nb::none(),
           "secret"_a.none() = nb::none(), nb::kw_only(), "provider"_a = "auto",
           "timeout"_a.none() = kUsual)
      .def_prop_ro("rank", [](Store& self) { return ferry_kvstore_rank(self.handle.get()); })
      .def_prop_ro("num_workers",
                   [](Store& self) { return ferry_kvstore_workers(self.handle.get()); })
      .def(
          "init",
          [](nb::object self, nb::handle key, nb::handle value, Timeout timeout) {
            const std::vector<Bytes> values{bytes_to_read(value)};
            call_store(self, timeout, values,
                       [key = key_from(key), tensor = values[0].tensor()](auto* own, auto ns) {
                         const char* name = key.name.c_str();
                         return ferry_kvstore_init(own, &name, key.is_number, &tensor, 1, ns);
                       });
          },
          "key"_a, "value"_a, "timeout"_a.none() = kUsual)
      .def(
          "set_optimizer",
          [](nb::object self, nb::handle update, Timeout timeout) {
            call_store(self, timeout, {}, [rule = update_from(update)](auto* own, auto ns) {
              return ferry_kvstore_set_optimizer(own, &rule, ns);
            });
          },
          "update"_a, "timeout"_a.none() = kUsual)
      .def(
          "push",
          [](nb::object self, nb::handle key, nb::handle values, Timeout timeout) {
            const auto all = all_bytes_to_read(values);
            call_store(self, timeout, all,
                       [key = key_from(key), tensors = tensors_of(all)](auto* own, auto ns) {
                         return ferry_kvstore_push(own, key.name.c_str(), key.is_number,
                                                   tensors.data(), tensors.size(), ns);
                       });
          },
          "key"_a, "values"_a, "timeout"_a.none() = kUsual)
      .def(
          "pull",
          [](nb::object self, nb::handle key, nb::handle out, Timeout timeout) {
            const std::vector<Bytes> outs{bytes_to_write(out)};
            call_store(self, timeout, outs,
                       [key = key_from(key), tensor = outs[0].tensor()](auto* own, auto ns) {
                         return ferry_kvstore_pull(own, key.name.c_str(), key.is_number, &tensor, 1,
                                                   ns);
                       });
          },
          "key"_a, "out"_a, "timeout"_a.none() = kUsual)
      .def(
          "barrier",
          [](nb::object self, Timeout timeout) {
            call_store(self, timeout, {},
                       [](auto* own, auto ns) { return ferry_kvstore_barrier(own, ns); });
          },
          "timeout"_a.none() = kUsual)
      .def(
          "close",
          [](nb::object self, Timeout timeout) {
            call_store(self, timeout, {},
                       [](auto* own, auto ns) { return ferry_kvstore_close(own, ns); });
            nb::cast<Store&>(self).handle.reset();
          },
          "timeout"_a.none() = kUsual);
}

}  // namespace

void bind_ps(nb::module_& module) {
  nb::class_<Job>(module, "Job", nb::is_weak_referenceable())
      .def(nb::new_(&open_job), "servers"_a, "workers"_a, "consistency"_a, "staleness"_a, "mean"_a,
           "replicas"_a, "shards"_a, "provider"_a, "listen"_a)
      .def_prop_ro("scheduler", [](Job& self) { return ferry_job_scheduler(self.handle.get()); })
      .def_prop_ro("secret", [](Job& self) { return ferry_job_secret(self.handle.get()); })
      .def(
          "wait",
          [](Job& self, Timeout timeout) {
            auto* const own = self.handle.get();
            wait_in_slices(timeout, [&](auto ns) { return ferry_job_wait(own, ns); });
          },
          "timeout"_a.none() = nb::none())
      .def("close", [](Job& self) { self.handle.reset(); });
  bind_worker(module);
  bind_store(module);
}

}  // namespace tensorferry
