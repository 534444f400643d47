// Uses the C interface as a program in C does: two devices of one process, a write, an error, and
// handles that are freed in the wrong order.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ferry/interop/c/tensorferry.h"

static const int64_t kSoon = 10000000000;

static void check(ferry_error* error, const char* what) {
  if (error == NULL) return;
  fprintf(stderr, "%s: %s: %s\n", what, ferry_code_name(ferry_error_code(error)),
          ferry_error_message(error));
  exit(1);
}

static void expect(ferry_error* error, int32_t code, const char* what) {
  if (ferry_error_code(error) != code) {
    fprintf(stderr, "%s: code %d, not %d (%s)\n", what, ferry_error_code(error), code,
            ferry_error_message(error));
    exit(1);
  }
  ferry_error_free(error);
}

static void write_and_read(ferry_device* owner, ferry_channel* channel) {
  ferry_region* region;
  ferry_remote grant;
  ferry_remote found;
  ferry_transfer* transfer;
  check(ferry_device_allocate(owner, 4096, FERRY_ALL, &region), "allocate");
  check(ferry_device_grant(owner, region, FERRY_ALL, NULL, &grant), "grant");
  check(ferry_device_publish(owner, "weights", &grant), "publish");
  check(ferry_channel_look_up(channel, "weights", kSoon, &found), "look_up");
  check(ferry_channel_write_flagged(channel, "ferry", 5, &found, 0, &found, 4088, 1, 0, &transfer),
        "write");
  check(ferry_transfer_wait(transfer, kSoon), "wait");
  ferry_transfer_free(transfer);
  const char* data = ferry_region_data(region);
  check(ferry_device_wait_flag(owner, data + 4088, 1, kSoon, FERRY_ADAPTIVE), "wait_flag");
  if (memcmp(data, "ferry", 5) != 0) exit(2);
  expect(ferry_channel_look_up(channel, "nothing", 1000000, &found), FERRY_DEADLINE_EXCEEDED,
         "look_up of nothing");
  ferry_region_free(region);
}

static void send_tensor(ferry_channel* to, ferry_channel* from) {
  ferry_spec spec = {.type = FERRY_F32, .rank = 1, .dims = {16}};
  ferry_receiver* receiver;
  ferry_sender* sender;
  ferry_ticket ticket;
  ferry_tensor tensor;
  ferry_arrival* arrival;
  check(ferry_receiver_open(from, &spec, NULL, &receiver), "receiver");
  check(ferry_receiver_ticket(receiver, &ticket), "ticket");
  check(ferry_sender_open(to, &ticket, NULL, &sender), "sender");
  check(ferry_sender_output(sender, NULL, &tensor, NULL), "output");
  ((float*)tensor.data)[15] = 42;
  check(ferry_sender_send(sender, &tensor, kSoon), "send");
  check(ferry_receiver_receive(receiver, kSoon, FERRY_ADAPTIVE, &arrival), "receive");
  ferry_sender_free(sender);
  ferry_receiver_free(receiver);  // before what it gave
  ferry_arrival_tensor(arrival, &tensor);
  if (((float*)tensor.data)[15] != 42 || tensor.spec.dims[0] != 16) exit(3);
  ferry_arrival_free(arrival);
}

static void refuse_child(ferry_device* device) {
  const pid_t child = fork();
  if (child == 0) {
    ferry_region* region;
    ferry_error* error = ferry_device_allocate(device, 64, FERRY_ALL, &region);
    ferry_device_free(device);
    _exit(ferry_error_code(error) == FERRY_FAILED_PRECONDITION ? 0 : 1);
  }
  int status = 1;
  if (waitpid(child, &status, 0) != child || status != 0) exit(4);
}

int main(void) {
  ferry_device_options options = {.size = sizeof(options)};
  ferry_device* a;
  ferry_device* b;
  ferry_channel* there;
  ferry_channel* back;
  ferry_text* text;
  options.secret = "of a test in the language C";
  check(ferry_device_open(&options, &a), "open");
  check(ferry_device_open(&options, &b), "open");
  check(ferry_device_connect(a, ferry_device_endpoint(b), NULL, kSoon, &there), "connect");
  check(ferry_device_accept(b, kSoon, &back), "accept");
  write_and_read(b, there);
  send_tensor(there, back);
  refuse_child(a);
  expect(ferry_device_allocate(NULL, 1, FERRY_ALL, NULL), FERRY_INVALID_ARGUMENT, "no device");
  options.size = 1000000;
  expect(ferry_device_open(&options, &a), FERRY_INVALID_ARGUMENT, "options of a later header");
  check(ferry_device_describe(a, &text), "describe");
  puts(ferry_text_data(text));
  ferry_text_free(text);
  ferry_device_free(a);
  ferry_device_free(b);
  ferry_channel_free(back);
  ferry_channel_free(there);
  return 0;
}
