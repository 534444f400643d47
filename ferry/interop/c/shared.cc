#include "ferry/interop/c/edge_internal.h"
#include "ferry/transfer/shared_tensor.h"

namespace ferry::interop {

namespace {

// The channels of readers stay as long as the writer.
struct WriterBox {
  WriterBox(std::shared_ptr<DeviceBox> of, transfer::SharedWriter opened)
      : device(std::move(of)), writer(std::move(opened)) {}
  std::shared_ptr<DeviceBox> device;
  std::vector<std::shared_ptr<ChannelBox>> readers;
  transfer::SharedWriter writer;
};

struct ReaderBox : EdgeBox {
  ReaderBox(std::shared_ptr<ChannelBox> of, transfer::SharedReader opened)
      : EdgeBox(std::move(of)), reader(std::move(opened)) {}
  transfer::SharedReader reader;
};

}  // namespace

}  // namespace ferry::interop

struct ferry_writer : ferry::interop::OfProcess {
  explicit ferry_writer(std::unique_ptr<ferry::interop::WriterBox> made) : box(std::move(made)) {}
  std::unique_ptr<ferry::interop::WriterBox> box;
};
struct ferry_reader : ferry::interop::OfProcess {
  explicit ferry_reader(std::shared_ptr<ferry::interop::ReaderBox> made) : box(std::move(made)) {}
  std::shared_ptr<ferry::interop::ReaderBox> box;
};

using namespace ferry;           // NOLINT(google-build-using-namespace): entries are outside
using namespace ferry::interop;  // NOLINT(google-build-using-namespace)

ferry_error* ferry_writer_open(ferry_device* device, const ferry_spec* spec,
                               const ferry_writer_options* options, ferry_writer** writer) {
  return guard(device, {spec, writer}, [&]() -> Status {
    const auto given = FERRY_TRY(options_of(options));
    transfer::SharedOptions how;
    if (given.versions != 0) how.versions = given.versions;
    if (given.readers != 0) how.readers = given.readers;
    const auto own = FERRY_TRY(spec_of(*spec));
    auto opened = FERRY_TRY(transfer::SharedWriter::open(device->box->device, own, how));
    *writer = new ferry_writer(std::make_unique<WriterBox>(device->box, std::move(opened)));
    return {};
  });
}

void ferry_writer_free(ferry_writer* writer) { free_handle(writer); }

ferry_error* ferry_writer_admit(ferry_writer* writer, ferry_channel* reader, ferry_ticket* ticket) {
  return guard(writer, {reader, ticket}, [&]() -> Status {
    *ticket = ticket_to_c(FERRY_TRY(writer->box->writer.admit(reader->box->channel)));
    writer->box->readers.push_back(reader->box);
    return {};
  });
}

ferry_error* ferry_writer_output(ferry_writer* writer, int64_t timeout_ns, ferry_tensor* tensor) {
  return guard(writer, {tensor}, [&]() -> Status {
    *tensor = tensor_to_c(FERRY_TRY(writer->box->writer.output(deadline_of(timeout_ns))));
    return {};
  });
}

ferry_error* ferry_writer_publish(ferry_writer* writer, uint64_t* version) {
  return guard(writer, {version}, [&]() -> Status {
    *version = FERRY_TRY(writer->box->writer.publish());
    return {};
  });
}

ferry_error* ferry_reader_open(ferry_channel* channel, const ferry_ticket* ticket,
                               ferry_reader** reader) {
  return guard(channel, {ticket, reader}, [&]() -> Status {
    const auto plain = FERRY_TRY(ticket_of(*ticket));
    auto& box = *channel->box;
    auto opened =
        FERRY_TRY(transfer::SharedReader::open(box.device->device, box.channel, plain, plain.spec));
    *reader = new ferry_reader(std::make_shared<ReaderBox>(channel->box, std::move(opened)));
    return {};
  });
}

void ferry_reader_free(ferry_reader* reader) { free_handle(reader); }

ferry_error* ferry_reader_read(ferry_reader* reader, uint64_t least, int64_t timeout_ns,
                               ferry_arrival** arrival) {
  return guard(reader, {arrival}, [&]() -> Status {
    auto came = FERRY_TRY(reader->box->reader.read(least, deadline_of(timeout_ns)));
    *arrival = new ferry_arrival(reader->box, std::move(came));
    return {};
  });
}

ferry_error* ferry_reader_describe(ferry_reader* reader, ferry_text** text) {
  return guard(reader, {text}, [&]() -> Status {
    *text = new ferry_text{stats_json(reader->box->reader.stats()).dump()};
    return {};
  });
}
